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


def answer(place, value):
    place._obj.value = value
    return SUCCESS


class Smi:
    def rsmi_init(self, *_):
        return SUCCESS

    rsmi_shut_down = rsmi_init

    def rsmi_num_monitor_devices(self, count):
        return answer(count, 4)

    def rsmi_dev_power_ave_get(self, device, sensor, power):
        if GPU != "MI250" or (VERSION > 5 and is_second_die(device)):
            return NOT_SUPPORTED
        return answer(power, 0 if is_second_die(device) else POWER_UW)

    def rsmi_dev_power_cap_get(self, device, sensor, cap):
        return NOT_SUPPORTED if sensor or is_second_die(device) else answer(cap, 560_000_000)

    def rsmi_dev_unique_id_get(self, device, unique):
        return answer(unique, UNIQUE_ID + device)

    def rsmi_dev_id_get(self, device, pci_id):
        return answer(pci_id, PCI_IDS[GPU])

    def rsmi_dev_name_get(self, device, name, length):
        name.value = NAMES[GPU].encode()
        return SUCCESS

    def rsmi_dev_pci_id_get(self, device, address):
        return answer(address, (0xC1 + 5 * device) << 8)

    def rsmi_dev_energy_count_get(self, device, count, resolution, when):
        resolution._obj.value = 15.259
        return answer(count, 0 if is_second_die(device) else int(time.monotonic() * 250 / 15.259e-6))


class Smi6(Smi):
    def rsmi_dev_current_socket_power_get(self, device, power):
        if GPU == "MI250":
            return NOT_SUPPORTED
        return answer(power, 2**64 - 1 if "NO_CURRENT_POWER" in os.environ else POWER_UW)

    def rsmi_dev_power_get(self, device, power, kind):
        assert isinstance(kind._obj, (ctypes.c_int, ctypes.c_uint))
        if "NO_CURRENT_POWER" in os.environ:
            return answer(power, POWER_UW)
        if not self.rsmi_dev_current_socket_power_get(device, power):
            return SUCCESS
        return self.rsmi_dev_power_ave_get(device, 0, power)


if VERSION > 5:

    def initRsmiBindings(silent):  # noqa: N802 - the library's name
        return Smi6()

else:
    rocmsmi = Smi()
