/* A stand-in for AMD's libamd_smi; shapes.h tells what it draws. Socket i draws (i + 1) times that.
 *   STAND_IN_DEVICES   number of sockets with one device each (default 2)
 *   STAND_IN_MI250     1: each device is followed by one without power and energy of its own
 * Fault: vanish. What the package asks for and nothing here answers is in the file that the tests make.
 */
#include <stdint.h>
#include <stdio.h>

#include "shapes.h"

enum { SUCCESS = 0, NOT_FOUND = 31, NO_DATA = 40 };

typedef struct {
    uint64_t socket_power;
    uint32_t current_socket_power, average_socket_power;
    uint64_t voltages[3];
    uint32_t power_limit, padding;
    uint64_t reserved[18];
} power_info;

static unsigned sockets(void) { return (unsigned)number("STAND_IN_DEVICES", 2); }
static unsigned per_socket(void) { return is("STAND_IN_MI250", "1") ? 2 : 1; }
/* A handle is the device's number plus one. */
static unsigned device(void *handle) { return (unsigned)(size_t)handle - 1; }
static int is_second(void *handle) { return device(handle) % per_socket() == 1; }
static unsigned socket_of(void *handle) { return device(handle) / per_socket(); }

int amdsmi_init(uint64_t flags) { (void)flags; start_s = now_s(); return SUCCESS; }
int amdsmi_shut_down(void) { return SUCCESS; }
int amdsmi_get_socket_handles(uint32_t *count, void **handles) {
    *count = sockets();
    for (unsigned i = 0; handles && i < *count; i++) handles[i] = (void *)(size_t)(i + 1);
    return SUCCESS;
}
int amdsmi_get_processor_handles(void *socket, uint32_t *count, void **handles) {
    *count = per_socket();
    for (unsigned i = 0; handles && i < *count; i++)
        handles[i] = (void *)(((size_t)socket - 1) * per_socket() + i + 1);
    return SUCCESS;
}
int amdsmi_get_power_info(void *handle, power_info *info) {
    if (fault("vanish", device(handle))) return NOT_FOUND;
    memset(info, 0, sizeof *info);
    unsigned watts = is_second(handle) ? 0 : (unsigned)((socket_of(handle) + 1) * power_w(now_s()));
    info->socket_power = info->current_socket_power = watts;
    info->average_socket_power = 0xFFFF;
    return SUCCESS;
}
int amdsmi_get_energy_count(void *handle, uint64_t *ticks, float *resolution_uj, uint64_t *timestamp_ns) {
    if (fault("vanish", device(handle))) return NOT_FOUND;
    *resolution_uj = 15.259F;
    *ticks = is_second(handle) ? 0 : (uint64_t)((socket_of(handle) + 1) * energy_j(now_s()) * 1e6 / *resolution_uj);
    *timestamp_ns = (uint64_t)(now_s() * 1e9);
    return SUCCESS;
}
int amdsmi_get_gpu_device_uuid(void *handle, unsigned *length, char *uuid) {
    snprintf(uuid, *length, "GPU-amd-%u", device(handle));
    return SUCCESS;
}
