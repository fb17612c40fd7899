"""Law 10: PyTorch agrees. Its OpInfo samples are run through both libraries and compared.

Only `programs` is imported by the ordinary tests: the rest needs PyTorch (`adjoint[oracle]`).
"""
