"""`local/`: a language model in this process, run by llama.cpp, without a key or a network.

`weights` finds and checks the weights, `engine` runs them, and `model` is the `Model`. Importing
this package does not import the runtime.
"""
