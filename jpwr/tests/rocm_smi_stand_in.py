"""A stand-in for ROCm SMI's bindings, which a test copies as rsmiBindings.py: one device draws 250 W.

STAND_IN_GPU is MI250 (default), MI300X or MI300A: which functions succeed is theirs. ROCM_VERSION is 5 or 6. With
NO_CURRENT_POWER all bits of the current power are set.
"""

import ctypes
import os
import time

SUCCESS, NOT_SUPPORTED = 0, 2
GPU = os.environ.get("STAND_IN_GPU", "MI250")
VERSION = int(os.environ.get("ROCM_VERSION", "6"))
NAMES = {"MI250": "AMD Instinct MI250X/MI250", "MI300X": "AMD Instinct MI300X", "MI300A": "0x74a0"}
PCI_IDS = {"MI250": 0x740C, "MI300X": 0x74A1, "MI300A": 0x74A0}
UNIQUE_ID = 0xF1182F2988C0A40
POWER_UW = 250_000_000


def is_second_die(device):
    return GPU == "MI250" and device % 2


class Smi:
    def rsmi_init(self, flags):
        return SUCCESS

    def rsmi_shut_down(self):
        return SUCCESS

    def rsmi_num_monitor_devices(self, count):
        count._obj.value = 4
        return SUCCESS

    def rsmi_dev_power_ave_get(self, device, sensor, power):
        if GPU != "MI250" or (VERSION > 5 and is_second_die(device)):
            return NOT_SUPPORTED
        power._obj.value = 0 if is_second_die(device) else POWER_UW
        return SUCCESS

    def rsmi_dev_power_cap_get(self, device, sensor, cap):
        if sensor or is_second_die(device):
            return NOT_SUPPORTED
        cap._obj.value = 560_000_000
        return SUCCESS

    def rsmi_dev_unique_id_get(self, device, unique):
        unique._obj.value = UNIQUE_ID + device
        return SUCCESS

    def rsmi_dev_id_get(self, device, pci_id):
        pci_id._obj.value = PCI_IDS[GPU]
        return SUCCESS

    def rsmi_dev_name_get(self, device, name, length):
        name.value = NAMES[GPU].encode()
        return SUCCESS

    def rsmi_dev_pci_id_get(self, device, address):
        address._obj.value = (0xC1 + 5 * device) << 8
        return SUCCESS

    def rsmi_dev_energy_count_get(self, device, count, resolution, when):
        count._obj.value = 0 if is_second_die(device) else int(time.monotonic() * 250 / 15.259e-6)
        resolution._obj.value = 15.259
        return SUCCESS


class Smi6(Smi):
    def rsmi_dev_current_socket_power_get(self, device, power):
        if GPU == "MI250":
            return NOT_SUPPORTED
        power._obj.value = 2**64 - 1 if "NO_CURRENT_POWER" in os.environ else POWER_UW
        return SUCCESS

    def rsmi_dev_power_get(self, device, power, kind):
        assert isinstance(kind._obj, (ctypes.c_int, ctypes.c_uint))
        if "NO_CURRENT_POWER" in os.environ:
            power._obj.value = POWER_UW
            return SUCCESS
        if not self.rsmi_dev_current_socket_power_get(device, power):
            return SUCCESS
        return self.rsmi_dev_power_ave_get(device, 0, power)


if VERSION > 5:

    def initRsmiBindings(silent):  # noqa: N802 - the library's name
        return Smi6()

else:
    rocmsmi = Smi()
