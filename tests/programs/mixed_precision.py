"""Autocast and scaled gradients around an ordinary loop, switched on and off by flags."""

import copy

import torch
from torch import nn
from torch.amp import GradScaler, autocast

torch.manual_seed(19)
torch.backends.cudnn.benchmark = True
x, y = torch.randn(32, 16), torch.randn(32, 1)
losses = []


base = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 1))


def train(use_amp, dtype, clip=False):
    net = copy.deepcopy(base)
    opt = torch.optim.SGD(net.parameters(), lr=0.01)
    scaler = GradScaler("cpu", enabled=use_amp and dtype == torch.float16, init_scale=2.0**8)
    found = []
    for _ in range(5):
        with autocast(device_type="cpu", dtype=dtype, enabled=use_amp):
            output = net(x)
            assert output.dtype == (dtype if use_amp else torch.float32)
            loss = nn.functional.mse_loss(output, y)
            assert loss.dtype == torch.float32
        scaler.scale(loss).backward()
        if clip:
            scaler.unscale_(opt)
            torch.nn.utils.clip_grad_norm_(net.parameters(), max_norm=0.1)
        scaler.step(opt)
        scaler.update()
        opt.zero_grad()
        found.append(loss.item())
    state = scaler.state_dict()
    scaler.load_state_dict(state) if state else None
    return found


losses += train(False, torch.bfloat16)
for dtype in (torch.bfloat16, torch.float16):
    half = train(True, dtype)
    assert all(abs(a - b) < 0.05 for a, b in zip(half, losses))
    train(True, dtype, clip=True)
