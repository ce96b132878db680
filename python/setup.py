"""A wheel of this package has a shared library in it: it is of one platform, and of every Python 3."""

from setuptools import Distribution, setup

try:
    from setuptools.command.bdist_wheel import bdist_wheel
except ImportError:
    from wheel.bdist_wheel import bdist_wheel


class OfOnePlatform(Distribution):
    def has_ext_modules(self):
        return True


class OfEveryPython(bdist_wheel):
    def get_tag(self):
        return ("py3", "none", super().get_tag()[2])


setup(distclass=OfOnePlatform, cmdclass={"bdist_wheel": OfEveryPython})
