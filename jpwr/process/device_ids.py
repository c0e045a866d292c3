"""One canonical form for the ids of a device in vendors' libraries, frameworks and the kernel.

NVML and CUDA have a UUID for each GPU. AMD has a number of 64 bits. rocminfo and ROCR_VISIBLE_DEVICES write it as
"GPU-" and 16 hexadecimal digits. The 16 bytes of HIP's UUID are the characters of these digits (ROCm/clr,
Device::populateOCLDeviceConstants), and PyTorch writes the characters in hexadecimal. amdsmi's UUID contains the number
in parts (ROCm/amdsmi, amdsmi_uuid_gen). Every PCI device has an address.
"""

from __future__ import annotations

import re

UUID = re.compile(r"(?:gpu-)?([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})")
AMDSMI_UUID = re.compile(r"([0-9a-f]{2})[0-9a-f]{6}-0000-1000-80([0-9a-f]{2})-([0-9a-f]{12})")
AMD_ID = re.compile(r"(?:gpu-)?([0-9a-f]{16})")
PCI_ADDRESS = re.compile(r"([0-9a-f]{4,8}):([0-9a-f]{2}):([0-9a-f]{2})(?:\.[0-7])?")
NO_AMD_ID = (0, 2**64 - 1)


def amd_id(unique_id: int) -> str:
    """Return the id of an AMD GPU with a unique number; empty for the sentinels of no number."""
    return "" if unique_id in NO_AMD_ID else f"GPU-{unique_id:016x}"


def pci_address(domain: int, bus: int, device: int) -> str:
    """Return the address of a PCI device as the kernel writes it, without the function: one GPU may have several."""
    return f"{domain:04x}:{bus:02x}:{device:02x}"


def same_ids(text: str) -> list[str]:
    """Return the ids in a text, separated by spaces, in canonical form; ids that identify no device are left out."""
    return [found for found in map(_one_form, text.split()) if found]


def _one_form(text: str) -> str:
    lower = text.lower()
    uuid, amd, pci = (form.fullmatch(lower) for form in (UUID, AMD_ID, PCI_ADDRESS))
    if pci:
        return pci_address(*(int(part, 16) for part in pci.groups()))
    if amd:
        return amd_id(int(amd[1], 16))
    if uuid:
        of_amdsmi = AMDSMI_UUID.fullmatch(uuid[1])
        if of_amdsmi:
            return amd_id(int("".join(of_amdsmi.groups()), 16))
        raw = bytes.fromhex(uuid[1].replace("-", ""))
        letters = raw.rstrip(b"\0").decode("ascii", "replace")
        if AMD_ID.fullmatch(letters.lower()):
            return amd_id(int(letters, 16))
        # HIP's letters are "XX" for a GPU without a number.
        return "" if letters in ("", "XX") else f"GPU-{uuid[1]}"
    return text
