"""Learns where things lie on the host from its own interpreter."""

STOPPED_BY = {"mount"}

import site, sys, sysconfig

shown = [os.getcwd(), os.__file__, sys.executable, sys.prefix, *sys.path, *os.environ.values(), os.path.expanduser("~")]
shown += [str(getattr(module, "__file__", "")) for module in list(sys.modules.values())]
shown += site.getsitepackages() + sys.orig_argv + list(sysconfig.get_paths().values())
if any(path[::-1] in text for path in HOST_PATHS_REVERSED for text in shown if text):
    print("REACHED")
