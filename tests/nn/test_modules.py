"""Module: members, hooks, state dicts, conversions, containers, lazy and compiled modules."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
import warnings
from collections import OrderedDict
from typing import Any

import pytest

import adjoint as ad
from adjoint import nn
from adjoint.nn.modules import module as of_all


@pytest.fixture(autouse=True)
def _seed() -> None:
    ad.manual_seed(0)


class Scale(nn.Module):
    """y = factor x, with a count of calls that is not learned."""

    def __init__(self, factor: float = 2.0) -> None:
        super().__init__()
        self.factor = nn.Parameter(ad.tensor(factor))
        self.register_buffer("calls", ad.zeros(()))

    def forward(self, x: Any, *, shift: Any = 0.0) -> Any:
        self.calls += 1
        return self.factor * x + shift


class Pair(nn.Module):
    """Two modules, of which the second is the first if `shared`."""

    def __init__(self, *, shared: bool = False) -> None:
        super().__init__()
        self.left = Scale(2.0)
        self.right = self.left if shared else Scale(3.0)

    def forward(self, x: Any) -> Any:
        return self.left(x) + self.right(x)


def names(pairs: Any) -> list[str]:
    return [name for name, _ in pairs]


# --- members ------------------------------------------------------------------------------------


def test_members_are_known_by_path_in_the_order_of_assignment() -> None:
    net = Pair()
    assert names(net.named_parameters()) == ["left.factor", "right.factor"]
    assert names(net.named_buffers()) == ["left.calls", "right.calls"]
    assert names(net.named_modules()) == ["", "left", "right"]
    assert names(net.named_children()) == ["left", "right"]
    assert names(net.named_parameters(prefix="net", recurse=False)) == []
    assert net.get_parameter("left.factor") is net.left.factor
    assert net.get_buffer("right.calls") is net.right.calls
    assert net.get_submodule("right") is net.right


def test_shared_members_come_once_unless_asked_for() -> None:
    net = Pair(shared=True)
    assert names(net.named_parameters()) == ["left.factor"]
    assert names(net.named_parameters(remove_duplicate=False)) == ["left.factor", "right.factor"]
    assert names(net.named_modules(remove_duplicate=False)) == ["", "left", "right"]
    assert len(list(net.modules())) == 2


def test_assignment_moves_a_name_to_where_its_value_belongs() -> None:
    net = nn.Module()
    net.thing = 1
    net.thing = nn.Parameter(ad.ones(1))
    assert "thing" not in net.__dict__
    assert names(net.named_parameters()) == ["thing"]
    net.thing = Scale()
    assert names(net.named_parameters()) == ["thing.factor"]
    net.thing = None
    assert net.thing is None
    assert names(net.named_modules()) == [""]
    del net.thing
    assert not hasattr(net, "thing")


@pytest.mark.parametrize(
    ("action", "error"),
    [
        (lambda m: setattr(m, "factor", ad.ones(1)), TypeError),
        (lambda m: setattr(m, "calls", 1), TypeError),
        (lambda m: m.register_parameter("calls", nn.Parameter(ad.ones(1))), KeyError),
        (lambda m: m.register_parameter("forward", nn.Parameter(ad.ones(1))), KeyError),
        (lambda m: m.register_parameter("a.b", None), KeyError),
        (lambda m: m.register_parameter("new", ad.ones(1)), TypeError),
        (lambda m: m.register_buffer("", None), KeyError),
        (lambda m: m.register_buffer("new", 1), TypeError),
        (lambda m: m.add_module("new", 1), TypeError),
        (lambda m: m.get_submodule("none"), AttributeError),
        (lambda m: m.get_parameter("calls"), AttributeError),
        (lambda m: m.none, AttributeError),
    ],
)
def test_members_that_do_not_fit_are_refused_and_nothing_changes(action: Any, error: Any) -> None:
    module = Scale()
    before = dict(module.state_dict())
    with pytest.raises(error):
        action(module)
    assert dict(module.state_dict()) == before


def test_a_parameter_is_a_leaf() -> None:
    module = nn.Module()
    result = nn.Parameter(ad.ones(1)) * 2
    result._is_param = True
    with pytest.raises(ValueError, match="leaf"):
        module.register_parameter("weight", result)


def test_members_need_init() -> None:
    class Early(nn.Module):
        def __init__(self) -> None:
            self.weight = nn.Parameter(ad.ones(1))

    with pytest.raises(AttributeError, match="__init__"):
        Early()


def test_dir_and_repr_show_members() -> None:
    net = nn.Sequential(OrderedDict(first=nn.Linear(2, 3), rest=nn.Sequential(nn.ReLU())))
    assert "first" in dir(net)
    assert repr(net) == (
        "Sequential(\n  (first): Linear(in_features=2, out_features=3, bias=True)\n"
        "  (rest): Sequential(\n    (0): ReLU()\n  )\n)"
    )


# --- hooks --------------------------------------------------------------------------------------


def test_hooks_around_forward_see_and_replace() -> None:
    module, seen = Scale(), []
    first = module.register_forward_pre_hook(lambda m, args: args[0] + 1)
    second = module.register_forward_hook(lambda m, args, out: seen.append(args) or out * 10)
    assert module(ad.tensor(1.0)).item() == 40.0
    assert seen[0][0].item() == 2.0
    first.remove()
    with second:
        assert module(ad.tensor(1.0)).item() == 20.0
    assert module(ad.tensor(1.0)).item() == 2.0


def test_hooks_with_kwargs_see_and_replace_them() -> None:
    module, seen = Scale(), []
    module.register_forward_pre_hook(
        lambda m, args, kwargs: (args, {"shift": kwargs["shift"] * 2}), with_kwargs=True
    )
    module.register_forward_hook(
        lambda m, args, kwargs, out: seen.append(kwargs["shift"]), with_kwargs=True
    )
    assert module(ad.tensor(1.0), shift=5.0).item() == 12.0
    assert seen == [10.0]


def test_prepended_hooks_come_first_and_global_ones_before_them() -> None:
    module, order = Scale(), []
    note = lambda name: lambda *_: order.append(name)
    module.register_forward_hook(note("own"))
    module.register_forward_hook(note("prepended"), prepend=True)
    with of_all.register_module_forward_hook(note("global")):
        module(ad.ones(1))
    module(ad.ones(1))
    assert order == ["global", "prepended", "own", "prepended", "own"]


def test_a_hook_that_is_always_called_is_called_after_an_error() -> None:
    module, seen = Scale(), []
    module.register_forward_hook(lambda *_: seen.append("plain"))
    module.register_forward_hook(lambda *_: seen.append("always"), always_call=True)
    with pytest.raises(TypeError):
        module(ad.ones(1), unknown=1)
    assert seen == ["always"]


def test_full_backward_hooks_see_and_replace_gradients() -> None:
    module, seen = Scale(3.0), []

    def before(m: Any, grads: Any) -> Any:
        return (grads[0] * 2,)

    def after(m: Any, inputs: Any, outputs: Any) -> Any:
        seen.append((inputs[0].item(), outputs[0].item()))
        return (inputs[0] + 1,)

    module.register_full_backward_pre_hook(before)
    module.register_full_backward_hook(after)
    x = ad.tensor(5.0, requires_grad=True)
    module(x).backward()
    assert seen == [(6.0, 2.0)]
    assert x.grad.item() == 7.0
    assert module.factor.grad.item() == 10.0


def test_backward_hooks_work_inside_transforms() -> None:
    module = Scale(3.0)
    module.register_full_backward_hook(lambda m, inputs, outputs: (inputs[0] * 10,))
    values = dict(module.named_parameters())

    def f(x: Any) -> Any:
        return ad.func.functional_call(module, values | {"calls": ad.zeros(())}, x).sum()

    assert ad.grad(f)(ad.tensor(1.0)).item() == 30.0
    assert ad.vmap(ad.grad(f))(ad.ones(2)).tolist() == [30.0, 30.0]
    assert ad.grad(lambda x: ad.grad(f)(x) * x)(ad.tensor(1.0)).item() == 30.0


def test_backward_hooks_of_a_module_without_inputs_that_want_gradients() -> None:
    module, seen = Scale(), []
    module.register_full_backward_hook(lambda m, inputs, outputs: seen.append(inputs))
    with pytest.warns(UserWarning, match="no input"):
        module(ad.tensor(1.0)).backward()
    assert seen == [(None,)]


def test_the_two_kinds_of_backward_hooks_do_not_mix() -> None:
    module = Scale()
    module.register_full_backward_hook(lambda *_: None)
    with pytest.raises(RuntimeError, match="register_full_backward_hook"):
        module.register_backward_hook(lambda *_: None)


def test_registration_hooks_may_replace_members() -> None:
    double = lambda m, name, p: nn.Parameter(p.detach() * 2)
    with of_all.register_module_parameter_registration_hook(double):
        module = Scale(2.0)
    assert module.factor.item() == 4.0


# --- state dicts --------------------------------------------------------------------------------


def test_state_dict_and_back_is_the_same_state() -> None:
    net, other = Pair(), Pair()
    with ad.no_grad():
        net.left.factor.fill_(7.0)
    net.left(ad.ones(1))
    state = net.state_dict()
    assert list(state) == ["left.factor", "left.calls", "right.factor", "right.calls"]
    assert not state["left.factor"].requires_grad
    assert state["left.factor"].data_ptr() == net.left.factor.data_ptr()
    assert state._metadata["left"] == {"version": 1}
    assert other.load_state_dict(state) == ([], [])
    assert other.left.factor.item() == 7.0
    assert other.left.calls.item() == 1.0
    assert other.left.factor.requires_grad


def test_load_state_dict_names_everything_that_does_not_fit() -> None:
    net = Pair()
    state = {"left.factor": ad.ones(2), "left.calls": ad.zeros(()), "more": ad.ones(1)}
    with pytest.raises(RuntimeError) as caught:
        net.load_state_dict(state)
    text = str(caught.value)
    for part in ("Missing", '"right.factor"', "Unexpected", '"more"', "size mismatch"):
        assert part in text
    del state["left.factor"]
    found = net.load_state_dict(state, strict=False)
    assert found.missing_keys == ["left.factor", "right.factor", "right.calls"]
    assert found.unexpected_keys == ["more"]


def test_load_state_dict_may_assign_tensors() -> None:
    net = Scale()
    given = ad.tensor(5.0)
    net.load_state_dict({"factor": given, "calls": ad.ones(())}, assign=True)
    assert isinstance(net.factor, nn.Parameter)
    assert net.factor.data_ptr() == given.data_ptr()


def test_buffers_that_are_not_persistent_stay_out_of_the_state() -> None:
    net = nn.Module()
    net.register_buffer("kept", ad.zeros(1))
    net.register_buffer("left_out", ad.zeros(1), persistent=False)
    net.also_out = nn.Buffer(ad.zeros(1), persistent=False)
    assert list(net.state_dict()) == ["kept"]
    assert names(net.named_buffers()) == ["kept", "left_out", "also_out"]


def test_extra_state_travels_with_the_state() -> None:
    class Counting(nn.Module):
        count = 0

        def get_extra_state(self) -> Any:
            return {"count": self.count}

        def set_extra_state(self, state: Any) -> None:
            self.count = state["count"]

    first, second = Counting(), Counting()
    first.count = 3
    second.load_state_dict(first.state_dict())
    assert second.count == 3
    with pytest.raises(RuntimeError, match="_extra_state"):
        second.load_state_dict({})


def test_hooks_around_states() -> None:
    net, seen = Pair(), []
    net.register_state_dict_pre_hook(lambda m, prefix, keep: seen.append("before saving"))
    net.register_state_dict_post_hook(lambda m, state, prefix, meta: state.update(extra=1))
    net.register_load_state_dict_pre_hook(lambda m, state, *_: state.pop("extra") and None)
    net.register_load_state_dict_post_hook(lambda m, keys: seen.append(keys))
    state = net.state_dict()
    assert state["extra"] == 1
    net.load_state_dict(state)
    assert state["extra"] == 1  # the caller's dict stays
    assert seen == ["before saving", ([], [])]


# --- conversions --------------------------------------------------------------------------------


def test_conversions_keep_the_identity_of_parameters() -> None:
    net = Scale()
    net.register_buffer("index", ad.arange(2))
    factor = net.factor
    net(ad.ones(())).backward()
    grad = factor.grad
    net.double()
    assert net.factor is factor
    assert factor.grad is grad
    assert factor.dtype is factor.grad.dtype is net.calls.dtype is ad.float64
    assert net.index.dtype is ad.int64
    net(ad.ones((), dtype=ad.float64)).backward()
    assert factor.grad.item() == 2.0
    with pytest.raises(TypeError, match="floating"):
        net.to(ad.int64)


def test_modules_without_data_get_memory() -> None:
    net = nn.Linear(2, 3, device="meta")
    assert net.weight.is_meta
    net.to_empty(device="cpu")
    assert not net.weight.is_meta
    assert isinstance(net.weight, nn.Parameter)


def test_modes_and_gradients_of_all_modules() -> None:
    net = Pair()
    assert net.eval() is net
    assert not any(m.training for m in net.modules())
    net.requires_grad_(requires_grad=False)
    assert not net(ad.ones(())).requires_grad
    net.requires_grad_()
    net(ad.ones(())).backward()
    net.zero_grad(set_to_none=False)
    assert net.left.factor.grad.item() == 0.0
    net.zero_grad()
    assert net.left.factor.grad is None


def test_copies_and_pickles_are_modules_of_their_own() -> None:
    net = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    net.register_forward_hook(_keep)
    x = ad.ones(1, 2)
    for made in (copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
        assert made[0].weight is not net[0].weight
        assert isinstance(made[0].weight, nn.Parameter)
        assert ad.equal(made(x), net(x))
    assert copy.copy(net)[0] is net[0]


def _keep(module: Any, args: Any, output: Any) -> None:
    pass


# --- containers ---------------------------------------------------------------------------------


def test_sequential_is_a_list_that_is_called() -> None:
    a, b, c = Scale(2.0), Scale(3.0), Scale(5.0)
    net = nn.Sequential(a, b)
    assert net(ad.ones(())).item() == 6.0
    net.append(c).insert(1, nn.Identity())
    assert [*net] == [a, net[1], b, c]
    assert net[-1] is c
    assert isinstance(net[1:3], nn.Sequential)
    del net[1]
    assert names(net.named_children()) == ["0", "1", "2"]
    assert net.pop(0) is a
    assert len(net + nn.Sequential(a)) == 3
    assert len(net * 2) == 4
    with pytest.raises(IndexError):
        net[5]


def test_module_list_and_dict_hold_members() -> None:
    listed = nn.ModuleList([Scale(), Scale()])
    listed += [Scale()]
    listed.insert(0, nn.Identity())
    assert names(listed.named_parameters()) == ["1.factor", "2.factor", "3.factor"]
    keyed = nn.ModuleDict({"a": Scale()})
    keyed.update([("b", Scale())])
    assert list(keyed.keys()) == ["a", "b"]
    assert keyed.pop("a") not in list(keyed.values())
    with pytest.raises(KeyError):
        keyed["none"]


def test_parameter_list_and_dict_make_parameters_of_tensors() -> None:
    listed = nn.ParameterList([ad.ones(1)]).append(ad.zeros(2))
    listed.append("text")
    assert names(listed.named_parameters()) == ["0", "1"]
    assert [type(v) for v in listed[1:]] == [ad.Tensor, str]
    keyed = nn.ParameterDict({"b": ad.ones(1), "a": ad.ones(1)})
    assert list(keyed) == ["a", "b"]  # a plain dict is sorted, as in PyTorch
    joined = keyed | {"c": ad.zeros(1)}
    assert list(joined) == ["a", "b", "c"]
    assert joined.popitem()[0] == "c"
    assert keyed.setdefault("d", ad.ones(1)) is keyed["d"]


# --- parameters ---------------------------------------------------------------------------------


def test_a_class_derived_from_parameter_is_a_class_of_tensors() -> None:
    class Named(nn.Parameter):
        def title(self) -> str:
            return f"{type(self).__name__} of {len(self)}"

    p = Named(ad.ones(2))
    assert isinstance(p, Named)
    assert isinstance(p, nn.Parameter)
    assert issubclass(Named, nn.Parameter)
    assert not isinstance(nn.Parameter(ad.ones(1)), Named)
    assert p.title() == "Named of 2"
    (p * 3).sum().backward()
    assert p.grad.tolist() == [3.0, 3.0]
    assert type(p * 3) is ad.Tensor
    module = nn.Module()
    module.p = p
    assert names(module.named_parameters()) == ["p"]


def test_a_parameter_of_a_users_class_is_of_that_class() -> None:
    class Length(ad.Tensor):
        pass

    p = nn.Parameter(Length([1.0, 2.0]))
    assert type(p) is Length
    assert isinstance(p, nn.Parameter)
    module = nn.Module()
    module.p = p
    module.double()
    assert type(module.p) is Length
    assert module.p.dtype is ad.float64


def test_an_uninitialized_parameter_has_a_dtype_and_no_values() -> None:
    p = nn.UninitializedParameter(dtype=ad.float64)
    for use in (lambda: p.shape, lambda: p + 1, lambda: ad.zeros(1).add_(p), p.numpy):
        with pytest.raises(ValueError, match="uninitialized"):
            use()
    again = pickle.loads(pickle.dumps(p))
    assert isinstance(copy.deepcopy(again), nn.UninitializedParameter)
    p.materialize((2,))
    assert p.dtype is ad.float64
    nn.init.ones_(p)
    (p * 2).sum().backward()
    assert p.grad.tolist() == [2.0, 2.0]
    assert not hasattr(p, "materialize")


def test_a_lazy_module_becomes_an_ordinary_one() -> None:
    lazy = nn.LazyLinear(3)
    assert isinstance(lazy.weight, nn.UninitializedParameter)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert lazy.double()(ad.ones(2, 4, dtype=ad.float64)).shape == (2, 3)
    assert type(lazy) is nn.Linear
    assert lazy.weight.shape == (3, 4)
    loaded = nn.LazyLinear(3)
    loaded.load_state_dict(lazy.state_dict())
    assert loaded.weight.shape == (3, 4)


# --- transforms and native code -----------------------------------------------------------------


def test_functional_call_differentiates_a_module() -> None:
    net = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 1)).double()
    x = ad.randn(4, 2, dtype=ad.float64)
    parameters = {name: p.detach() for name, p in net.named_parameters()}

    def loss(values: Any, x: Any) -> Any:
        return ad.func.functional_call(net, values, (x,)).square().sum()

    net(x).square().sum().backward()
    eager = {name: p.grad for name, p in net.named_parameters()}
    plain = ad.grad(loss)(parameters, x)
    native = ad.compile(ad.grad(loss))(parameters, x)
    single = ad.vmap(ad.grad(loss), (None, 0))(parameters, x[:, None])
    for name, expected in eager.items():
        assert ad.allclose(plain[name], expected)
        assert ad.allclose(native[name], expected)
        assert ad.allclose(single[name].sum(0), expected)
    assert isinstance(net[0].weight, nn.Parameter)


def test_functional_call_keeps_tied_weights_together() -> None:
    net = Pair(shared=True)
    call = ad.func.functional_call
    x = ad.ones(())
    assert call(net, {"left.factor": ad.tensor(5.0)}, x).item() == 10.0
    untied = call(net, {"left.factor": ad.tensor(5.0)}, x, tie_weights=False)
    assert untied.item() == 10.0  # one module: there is one place
    two = {"left.factor": ad.tensor(5.0), "right.factor": ad.tensor(6.0)}
    with pytest.raises(ValueError, match="one tensor"):
        call(net, two, x)
    with pytest.raises(RuntimeError, match="left.calls"):
        call(net, {"left.factor": x}, x, strict=True)


def test_functional_call_that_fails_leaves_everything_as_it_was() -> None:
    net = Pair()
    left, given = net.left.factor, {"left.factor": ad.tensor(5.0)}
    with pytest.raises(TypeError, match="none"):
        ad.func.functional_call(net, given | {"none.factor": ad.ones(1)}, ad.ones(()))
    new = {"left.none": ad.ones(1)}  # an attribute during the call, as in PyTorch
    assert ad.func.functional_call(net, given | new, ad.ones(())).item() == 8.0
    with pytest.raises(TypeError):
        ad.func.functional_call(net, given | new, (1, 2, 3))
    assert not hasattr(net.left, "none")
    assert net.left.factor is left
    assert given["left.factor"].item() == 5.0


def test_functional_call_gives_back_buffers_that_forward_assigns() -> None:
    class Counter(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("steps", ad.zeros(()))

        def forward(self) -> Any:
            self.steps = self.steps + 1
            return self.steps

    counter, buffers = Counter(), {"steps": ad.tensor(5.0)}
    assert ad.func.functional_call(counter, buffers, ()).item() == 6.0
    assert buffers["steps"].item() == 6.0
    assert counter.steps.item() == 0.0


def test_modules_of_one_class_run_at_once() -> None:
    nets = [nn.Linear(2, 1) for _ in range(3)]
    parameters, buffers = ad.func.stack_module_state(nets)
    x = ad.ones(4, 2)
    call = lambda p, b: ad.func.functional_call(nets[0], (p, b), (x,))
    found = ad.vmap(call)(parameters, buffers)
    assert ad.allclose(found, ad.stack([net(x) for net in nets]))
    assert parameters["weight"].requires_grad


def test_a_compiled_module_learns_and_keeps_statistics_as_the_eager_one() -> None:
    eager = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3), nn.Linear(3, 1)).double()
    twin = copy.deepcopy(eager)
    fast = ad.compile(twin)
    assert next(fast.parameters()) is next(twin.parameters())
    x = ad.randn(6, 2, dtype=ad.float64)
    for _ in range(2):
        for net, call in ((eager, eager), (twin, fast)):
            call(x).square().sum().backward()
            with ad.no_grad():
                for p in net.parameters():
                    p -= 0.1 * p.grad
                    p.grad = None
    for name, value in eager.state_dict().items():
        assert ad.allclose(twin.state_dict()[name].double(), value.double()), name
    assert ad.allclose(fast.eval()(x), eager.eval()(x))
    assert "forward" not in copy.deepcopy(fast).__dict__
    with pytest.raises(TypeError, match="functional_call"):
        ad.compile(eager, dynamic={"input": 0})


def test_modules_load_neither_the_compiler_nor_each_other_before_they_are_used() -> None:
    program = (
        "import sys; import adjoint as ad; ad.nn.functional; "
        "assert 'adjoint.nn.modules' not in sys.modules; ad.nn.Linear(1, 1); "
        "assert 'adjoint.compiler' not in sys.modules"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", program], check=True)


def test_a_module_is_not_copied_by_to() -> None:
    with pytest.raises(RuntimeError, match=r"copy\.deepcopy"):
        nn.Linear(1, 1).to("cpu", copy=True)


def test_a_module_without_data_says_how_to_get_some() -> None:
    with pytest.raises(NotImplementedError, match="to_empty"):
        nn.Linear(1, 1, device="meta").to("cpu")


def test_a_module_without_data_has_the_strides_of_one_with_data() -> None:
    for made in (nn.Linear(2, 3), nn.Conv2d(2, 3, 4)):
        with ad.device("meta"):
            bare = type(made)(*((2, 3) if isinstance(made, nn.Linear) else (2, 3, 4)))
        for mine, theirs in zip(bare.parameters(), made.parameters(), strict=True):
            assert mine.stride() == theirs.stride()
            assert mine.is_contiguous()
