"""The inputs: for each component its case, the recipes of its arrays, and the hypothesis strategies over both."""
