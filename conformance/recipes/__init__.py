"""How the arrays of a case are made, by component: each recipe separates faults that plain random input hides."""
