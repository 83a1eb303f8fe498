"""`local/`: a language model inside this process, run by llama.cpp; no key, no network.

`catalog` knows the weights that come in packages, `weights` finds and checks them, `engine` runs
them, and `model` is the `Model`. Importing this package imports no runtime.
"""
