"""checkpoint: compute again what a derivative needs, in place of keeping it.

| file | holds |
| --- | --- |
| `calls.py` | the function that users call, and which way a call takes |
| `recompute.py` | on the eager tape: the nodes of the function keep numbers in place of tensors |
| `determinism.py` | what is remembered of a saved tensor, to see that the same is computed again |
| `reentrant.py` | PyTorch's older way: one node that runs the function and a backward again |
| `functional.py` | inside transforms: a `Function` of the arguments |
| `selective.py` | policies that say which results are kept |
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
