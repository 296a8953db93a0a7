"""How the models of the laboratory are trained, and the models that KBForge ships."""
