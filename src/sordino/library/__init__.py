"""The Python library beside the files: experiments as objects, data and models that a program holds, results, own loops."""
