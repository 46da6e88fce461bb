"""What a traced job is told, on its standard error."""
import sys


def say(text):
    print("plumb: " + text, file=sys.stderr, flush=True)
