"""An element of a result as an expression: the language, its functions, its C."""
