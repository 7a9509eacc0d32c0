def report(only, jobs, out, console):
    raise NotImplementedError
