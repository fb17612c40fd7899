"""Law 10: PyTorch agrees. Its OpInfo samples are run through both libraries and compared.

Nothing here is imported by the ordinary tests: it needs PyTorch (`adjoint[oracle]`).
"""
