"""The checks, and everything that runs and reports them. It knows no concrete backend."""
