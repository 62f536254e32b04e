"""The ranks of a job with `engine: 'torch'`: each rank is one process, which trains with PyTorch."""
