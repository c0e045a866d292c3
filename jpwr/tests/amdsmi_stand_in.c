/* A stand-in for AMD's libamd_smi of ROCm 7; shapes.h tells what it draws. Card i draws (i + 1) times that.
 *   STAND_IN_GPU         MI250 (two devices a card, one of them without a sensor), MI300X (default) or MI300A
 *   STAND_IN_DEVICES     number of cards (default 2)
 *   STAND_IN_PARTITIONS  devices into which each card is divided (default 1): all show the card's power
 *   STAND_IN_FIRST_DIE   1: of an MI250's dies the second one has the sensor
 *   STAND_IN_STATE       a folder in which power caps and performance levels are kept, for all processes
 *   STAND_IN_RIGHTS      none: nothing may be set
 * Faults: vanish; no-power, no-counter, no-cap, zeros; no-serial; no-id: the kernel does not tell the unique ids.
 * What the package asks for and nothing here answers is in the file that the tests make.
 */
#include <stdint.h>
#include <stdio.h>

#include "shapes.h"

enum { SUCCESS = 0, NOT_SUPPORTED = 2, NO_PERMISSION = 10, NOT_FOUND = 31 };
/* All bits of a field are set where a GPU has no such number. */
static const uint32_t no_power = 0xFFFF;

typedef struct {
    uint64_t socket_power;
    uint32_t current_socket_power, average_socket_power;
    uint64_t voltages[3];
    uint32_t power_limit, padding;
    uint64_t reserved[18];
} power_info;

typedef struct {
    uint64_t power_cap_uw, default_power_cap_uw, dpm_cap_mhz, min_power_cap_uw, max_power_cap_uw, reserved[3];
} power_cap_info;

typedef struct __attribute__((packed)) {
    char market_name[256];
    uint32_t vendor_id;
    char vendor_name[256];
    uint32_t subvendor_id;
    uint64_t device_id;
    uint32_t rev_id;
    char asic_serial[256];
    uint32_t oam_id, num_of_compute_units, padding;
    uint64_t target_graphics_version;
    uint32_t subsystem_id, reserved[21];
} asic_info;

static int is_gpu(const char *name) { return strcmp(name, getenv("STAND_IN_GPU") ? getenv("STAND_IN_GPU") : "MI300X") == 0; }
static unsigned per_card(void) { return is_gpu("MI250") ? 2 : (unsigned)number("STAND_IN_PARTITIONS", 1); }
static unsigned devices(void) { return (unsigned)number("STAND_IN_DEVICES", 2) * per_card(); }
/* A handle is the device's number plus one. */
static unsigned device(void *handle) { return (unsigned)(size_t)handle - 1; }
static unsigned card(void *handle) { return device(handle) / per_card(); }
static int is_without_sensor(void *handle) {
    return (is_gpu("MI250") && device(handle) % 2 != number("STAND_IN_FIRST_DIE", 0)) || fault("zeros", device(handle));
}
/* One digit less than 16: the library leaves leading zeros out. */
static uint64_t unique_id(void *handle) { return 0xf1182f2988c0a40 + device(handle); }

/* What was set of a device, and what it has otherwise. */
static const uint64_t highest_mhz = 2100;
static FILE *state(void *handle, const char *name, const char *mode) {
    char path[4096];
    if (!getenv("STAND_IN_STATE")) return NULL;
    snprintf(path, sizeof path, "%s/%s-%u", getenv("STAND_IN_STATE"), name, device(handle));
    return fopen(path, mode);
}
static uint64_t kept(void *handle, const char *name, uint64_t otherwise) {
    unsigned long long value = otherwise;
    FILE *file = state(handle, name, "r");
    if (file) {
        if (fscanf(file, "%llu", &value) != 1) value = otherwise;
        fclose(file);
    }
    return value;
}
static int keep(void *handle, const char *name, uint64_t value) {
    if (is("STAND_IN_RIGHTS", "none")) return NO_PERMISSION;
    FILE *file = state(handle, name, "w");
    if (!file) return NOT_SUPPORTED;
    fprintf(file, "%llu", (unsigned long long)value);
    fclose(file);
    return SUCCESS;
}

int amdsmi_init(uint64_t flags) { (void)flags; start_s = now_s(); return SUCCESS; }
int amdsmi_shut_down(void) { return SUCCESS; }
/* What the library calls a socket is a PCI device: the two dies of a card are two. */
int amdsmi_get_socket_handles(uint32_t *count, void **handles) {
    *count = devices();
    for (unsigned i = 0; handles && i < *count; i++) handles[i] = (void *)(size_t)(i + 1);
    return SUCCESS;
}
int amdsmi_get_processor_handles(void *socket, uint32_t *count, void **handles) {
    *count = 1;
    if (handles) handles[0] = socket;
    return SUCCESS;
}
int amdsmi_get_power_info(void *handle, power_info *info) {
    if (fault("vanish", device(handle))) return NOT_FOUND;
    memset(info, 0, sizeof *info);
    uint32_t watts = is_without_sensor(handle) ? 0 : (uint32_t)((card(handle) + 1) * power_w(now_s()));
    if (fault("no-power", device(handle))) watts = no_power;
    info->current_socket_power = is_gpu("MI250") ? no_power : watts;
    info->average_socket_power = is_gpu("MI250") ? watts : no_power;
    info->socket_power = watts == no_power ? UINT64_MAX : watts;
    return SUCCESS;
}
int amdsmi_get_power_cap_info(void *handle, uint32_t sensor, power_cap_info *info) {
    if (fault("vanish", device(handle))) return NOT_FOUND;
    if (sensor || is_without_sensor(handle)) return NOT_SUPPORTED;
    memset(info, 0, sizeof *info);
    uint64_t default_uw = (card(handle) + 1) * 750000000ull;
    info->power_cap_uw = fault("no-cap", device(handle)) ? UINT64_MAX : kept(handle, "cap", default_uw);
    info->default_power_cap_uw = info->max_power_cap_uw = default_uw;
    return SUCCESS;
}
int amdsmi_set_power_cap(void *handle, uint32_t sensor, uint64_t cap_uw) { return sensor ? NOT_SUPPORTED : keep(handle, "cap", cap_uw); }
typedef struct __attribute__((packed)) {
    uint32_t clk, min_clk, max_clk;
    uint8_t clk_locked, clk_deep_sleep, padding[2];
    uint32_t reserved[4];
} clk_info;
int amdsmi_get_clock_info(void *handle, int kind, clk_info *info) {
    if (kind != 0 || !getenv("STAND_IN_STATE")) return NOT_SUPPORTED;
    memset(info, 0, sizeof *info);
    info->min_clk = 132, info->max_clk = info->clk = (uint32_t)kept(handle, "clock", highest_mhz);
    return SUCCESS;
}
int amdsmi_get_gpu_perf_level(void *handle, int *level) {
    *level = (int)kept(handle, "level", 0);
    return SUCCESS;
}
int amdsmi_set_gpu_perf_level(void *handle, int level) {
    int code = keep(handle, "level", (uint64_t)level);
    return code ? code : keep(handle, "clock", highest_mhz);
}
int amdsmi_set_gpu_perf_determinism_mode(void *handle, uint64_t mhz) {
    int code = keep(handle, "level", 8);
    return code ? code : keep(handle, "clock", mhz);
}
int amdsmi_get_energy_count(void *handle, uint64_t *ticks, float *resolution_uj, uint64_t *timestamp_ns) {
    if (fault("vanish", device(handle))) return NOT_FOUND;
    *resolution_uj = 15.259F;
    *ticks = is_without_sensor(handle) ? 0 : (uint64_t)((card(handle) + 1) * energy_j(now_s()) * 1e6 / *resolution_uj);
    if (fault("no-counter", device(handle))) *ticks = UINT64_MAX;
    *timestamp_ns = (uint64_t)(now_s() * 1e9);
    return SUCCESS;
}
int amdsmi_get_gpu_asic_info(void *handle, asic_info *info) {
    if (fault("vanish", device(handle))) return NOT_FOUND;
    memset(info, 0, sizeof *info);
    const char *name = is_gpu("MI250") ? "MI250X/MI250" : is_gpu("MI300A") ? "MI300A" : "MI300X";
    snprintf(info->market_name, sizeof info->market_name, "AMD Instinct %s", name);
    info->device_id = is_gpu("MI250") ? 0x740c : is_gpu("MI300A") ? 0x74a0 : 0x74a1;
    int is_told = !fault("no-id", device(handle)) && !fault("no-serial", device(handle));
    uint64_t serial = !is_told ? UINT64_MAX : unique_id(handle);
    snprintf(info->asic_serial, sizeof info->asic_serial, "%llx", (unsigned long long)serial);
    return SUCCESS;
}
int amdsmi_get_gpu_device_uuid(void *handle, unsigned *length, char *uuid) {
    if (fault("vanish", device(handle)) || fault("no-id", device(handle))) return NOT_SUPPORTED;
    uint64_t id = unique_id(handle);
    snprintf(uuid, *length, "%02xff74a1-0000-1000-80%02x-%04x%08x", (unsigned)(id >> 56), (unsigned)(id >> 48 & 0xFF),
             (unsigned)(id >> 32 & 0xFFFF), (unsigned)id);
    return SUCCESS;
}
int amdsmi_get_gpu_device_bdf(void *handle, uint64_t *bdf) {
    if (fault("vanish", device(handle))) return NOT_FOUND;
    /* Bits 0 to 2 are the function, which tells partitions apart; 3 to 7 the device, 8 to 15 the bus. */
    unsigned bus = 0xc1 + 5 * (is_gpu("MI250") ? device(handle) : card(handle));
    *bdf = bus << 8 | (is_gpu("MI250") ? 0 : device(handle) % per_card());
    return SUCCESS;
}
