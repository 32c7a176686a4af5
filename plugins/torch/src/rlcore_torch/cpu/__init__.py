"""Code written by hand for speed on a CPU. ``torch_settings.fast_cpu: false`` runs without any of it.

Each module replaces one piece of plain PyTorch that computes the same numbers, up to rounding:

- ``dense``: a stack of linear layers as one node of the autograd graph, in place of ``networks.networks.dense``;
- ``acting``: the actor in NumPy for a few rows, in place of ``Actor.policy``; ``stacked_acting`` computes several;
- ``flat_adam``: Adam and gradient clipping over one flat tensor, in place of ``torch.optim.Adam``;
- ``pieces``: a large minibatch piece by piece, in place of the whole at once;
- ``pair``: two functions in two threads, in place of one after the other.

``rlcore_torch.backend`` chooses. Parameters and checkpoints have the same names and shapes with and without.
``benchmarks/fast_cpu.py`` measures what each piece is worth.
"""
