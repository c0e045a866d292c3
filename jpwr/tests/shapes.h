/* Power as a known function of the monotonic clock, so that the true energy of any window is known; for the stand-ins
 * of vendor libraries. The environment chooses:
 *   STAND_IN_SHAPE      square (default), ramp, spikes or constant
 *   STAND_IN_PERIOD_S   of the square wave (default 0.37)
 *   STAND_IN_FAULT      what goes wrong on device STAND_IN_FAULT_DEVICE (default: all), from the moment on at which
 *                       the file STAND_IN_FAULT_FILE is there (default: always); each library says which faults it has
 * A program that moves a clock of its own sets stand_in_time_s, which then stands for the monotonic clock.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const double high_w = 500, low_w = 100, spike_s = 0.02, ramp_w_per_s = 5, ramp_s = 80;
static double start_s;
double stand_in_time_s = -1;

static double now_s(void) {
    if (stand_in_time_s >= 0) return stand_in_time_s;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec + 1e-9 * now.tv_nsec;
}

static double number(const char *name, double otherwise) {
    const char *text = getenv(name);
    return text ? atof(text) : otherwise;
}

static int is(const char *name, const char *value) {
    const char *text = getenv(name);
    return text && strcmp(text, value) == 0;
}

static int fault(const char *name, unsigned device) {
    const char *file = getenv("STAND_IN_FAULT_FILE");
    return is("STAND_IN_FAULT", name) && number("STAND_IN_FAULT_DEVICE", device) == device &&
           (!file || access(file, F_OK) == 0);
}

static double power_w(double t) {
    if (is("STAND_IN_SHAPE", "constant")) return 300;
    if (is("STAND_IN_SHAPE", "ramp")) return low_w + ramp_w_per_s * fmod(t, ramp_s);
    if (is("STAND_IN_SHAPE", "spikes")) return fmod(t, 1) < spike_s ? high_w : low_w;
    double period_s = number("STAND_IN_PERIOD_S", 0.37);
    return fmod(t, period_s) < period_s / 2 ? high_w : low_w;
}

/* The integral of power from time 0 of the clock. */
static double energy_j(double t) {
    if (is("STAND_IN_SHAPE", "constant")) return 300 * t;
    if (is("STAND_IN_SHAPE", "ramp")) {
        double ramps = floor(t / ramp_s), part = fmod(t, ramp_s);
        return ramps * (low_w * ramp_s + ramp_w_per_s * ramp_s * ramp_s / 2) + low_w * part + ramp_w_per_s * part * part / 2;
    }
    if (is("STAND_IN_SHAPE", "spikes"))
        return low_w * t + (high_w - low_w) * (spike_s * floor(t) + fmin(fmod(t, 1), spike_s));
    double period_s = number("STAND_IN_PERIOD_S", 0.37), half = period_s / 2, phase = fmod(t, period_s);
    double part = phase < half ? phase * high_w : half * high_w + (phase - half) * low_w;
    return floor(t / period_s) * half * (high_w + low_w) + part;
}
