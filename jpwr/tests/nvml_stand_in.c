/* A stand-in for NVIDIA's management library: power is a known function of the monotonic clock, so that the true
 * energy of any window is known. The environment chooses shape and faults:
 *   STAND_IN_DEVICES   number of devices (default 2); device i draws (i + 1) times the power of device 0
 *   STAND_IN_FAULT     no-driver: init fails; no-counter: there is no energy counter; vanish: readings fail from
 *                      STAND_IN_FAULT_S seconds after the start on
 * Device 0 draws a square wave: 500 W in the first half of each period of 0.37 s, 100 W in the second.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SUCCESS = 0, NOT_SUPPORTED = 3, DRIVER_NOT_LOADED = 9, GPU_IS_LOST = 15 };
static const double period_s = 0.37, high_w = 500, low_w = 100;
static double start_s;

static double now_s(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec + 1e-9 * now.tv_nsec;
}

static int fault(const char *name) {
    const char *asked = getenv("STAND_IN_FAULT");
    return asked && strcmp(asked, name) == 0;
}

static int lost(void) {
    const char *after = getenv("STAND_IN_FAULT_S");
    return fault("vanish") && now_s() - start_s >= (after ? atof(after) : 0);
}

static double power_w(double t) { return fmod(t, period_s) < period_s / 2 ? high_w : low_w; }

/* The integral of power from time 0 of the clock. */
static double energy_j(double t) {
    double phase = fmod(t, period_s), half = period_s / 2;
    double part = phase < half ? phase * high_w : half * high_w + (phase - half) * low_w;
    return floor(t / period_s) * half * (high_w + low_w) + part;
}

int nvmlInitWithFlags(unsigned flags) { (void)flags; start_s = now_s(); return fault("no-driver") ? DRIVER_NOT_LOADED : SUCCESS; }
int nvmlInit_v2(void) { return nvmlInitWithFlags(0); }
int nvmlShutdown(void) { return SUCCESS; }
const char *nvmlErrorString(int code) { return code == DRIVER_NOT_LOADED ? "Driver Not Loaded" : "GPU is lost"; }

int nvmlDeviceGetCount_v2(unsigned *count) {
    const char *devices = getenv("STAND_IN_DEVICES");
    *count = devices ? atoi(devices) : 2;
    return SUCCESS;
}
/* A handle is the device's number plus one: null is none. */
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **handle) { *handle = (void *)(size_t)(index + 1); return SUCCESS; }
int nvmlDeviceGetName(void *handle, char *name, unsigned size) { (void)handle; snprintf(name, size, "Stand-in GPU"); return SUCCESS; }
int nvmlDeviceGetUUID(void *handle, char *uuid, unsigned size) { snprintf(uuid, size, "GPU-%zu", (size_t)handle - 1); return SUCCESS; }
int nvmlDeviceGetPowerUsage(void *handle, unsigned *milliwatts) {
    if (lost()) return GPU_IS_LOST;
    *milliwatts = (unsigned)(1000 * (size_t)handle * power_w(now_s()));
    return SUCCESS;
}
int nvmlDeviceGetTotalEnergyConsumption(void *handle, unsigned long long *millijoules) {
    if (fault("no-counter")) return NOT_SUPPORTED;
    if (lost()) return GPU_IS_LOST;
    *millijoules = (unsigned long long)(1000 * (size_t)handle * energy_j(now_s()));
    return SUCCESS;
}
