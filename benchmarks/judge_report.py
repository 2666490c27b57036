"""x"""
def report(*a, **k): pass
