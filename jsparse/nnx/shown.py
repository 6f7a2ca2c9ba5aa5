"""The attributes of NNX modules that `help` and `dir` show, and the signatures of the modules."""

from __future__ import annotations

from inspect import Signature, signature
from typing import TYPE_CHECKING

from flax import nnx

if TYPE_CHECKING:
    from flax.nnx.module import ModuleMeta
else:
    ModuleMeta = type(nnx.Module)  # Flax has no public name for it


class Shown(ModuleMeta):
    """The metaclass of jsparse's modules. `dir` and `help` do not show the attributes that Flax defines.

    Flax's metaclass gives a class the signature `(*args, **kwargs)`. Here a class has the signature
    of `__init__`, but its instances do not, so that `jax.jit(layer)` finds the arguments of `__call__`.
    """

    def __dir__(self) -> list[str]:
        owners = {name: next((base for base in self.__mro__ if name in vars(base)), self) for name in super().__dir__()}
        return [name for name, owner in owners.items() if owner.__module__.partition(".")[0] != "flax"]

    @property
    def __signature__(self) -> Signature:
        init = signature(self.__init__)  # type: ignore[misc]
        return init.replace(parameters=list(init.parameters.values())[1:], return_annotation=Signature.empty)
