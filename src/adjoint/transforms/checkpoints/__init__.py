"""checkpoint: compute the values that a derivative needs again, instead of keeping them.

| file | holds | | --- | --- | | `calls.py` | the function that users call, and the choice among the
ways below | | `recompute.py` | on the eager tape: the nodes of the function keep numbers in place
of tensors | | `determinism.py` | fingerprints of saved tensors, to notice a recomputation that
differs | | `reentrant.py` | PyTorch's older way: one node that runs the function and a backward
again | | `functional.py` | inside transforms: a `Function` of the arguments | | `selective.py` |
policies that choose which results are kept |
"""

from adjoint.transforms.checkpoints.calls import Options, checkpoint, run
from adjoint.transforms.checkpoints.recompute import (
    set_checkpoint_debug_enabled,
    set_checkpoint_early_stop,
)
from adjoint.transforms.checkpoints.selective import (
    CheckpointPolicy,
    SelectiveCheckpointContext,
    create_selective_checkpoint_contexts,
)
