"""The calls of a training step through the C ABI, made once and repeated, as a program in C would."""

import ctypes


class Recorder:
    """Stands in for a device while a step is recorded: what is encoded is kept, and everything else is the device's."""

    def __init__(self, device):
        self.device, self.calls, self.optimizers, self.done = device, [], [], 0

    def __getattr__(self, name):
        return getattr(self.device, name)

    def encode(self, _, name, given):
        given.size = ctypes.sizeof(given)
        self.calls.append((name, getattr(self.device.library, "iron_encode_" + name), ctypes.byref(given)))
        if name == "adam_step":
            self.optimizers.append(given)

    def step(self):
        """Records the calls anew into commands of the device, and waits for them."""
        self.done += 1
        for optimizer in self.optimizers:
            optimizer.step = self.done
        commands = self.device.make("commands_begin", self.device.handle, None)
        for name, call, given in self.calls:
            if call(commands, given) != 0:
                raise RuntimeError(f"{name}: {self.device.library.iron_last_error().decode()}")
        self.device.call("commands_run", commands)
        self.device.call("commands_release", commands)
