// Lets a PyTorch that was built for CPUs run its passes over CUDA tensors without data: it asks these for a GPU.

#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

namespace c10::impl {

struct OneGpu final : DeviceGuardImplInterface {
  static Device gpu() { return Device(DeviceType::CUDA, 0); }
  DeviceType type() const override { return DeviceType::CUDA; }
  Device exchangeDevice(Device) const override { return gpu(); }
  Device getDevice() const override { return gpu(); }
  void setDevice(Device) const override {}
  void uncheckedSetDevice(Device) const noexcept override {}
  Stream getStream(Device) const override { return Stream(Stream::DEFAULT, gpu()); }
  Stream exchangeStream(Stream stream) const override { return stream; }
  DeviceIndex deviceCount() const noexcept override { return 1; }
};
C10_REGISTER_GUARD_IMPL(CUDA, OneGpu);

}  // namespace c10::impl

namespace at {

struct CUDAHooks final : CUDAHooksInterface {  // PyTorch looks for this name
  explicit CUDAHooks(CUDAHooksArgs) {}
  void init() const override {}
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasCUDA() const override { return true; }
  bool hasPrimaryContext(DeviceIndex) const override { return true; }
  DeviceIndex deviceCount() const override { return 1; }
  DeviceIndex getCurrentDevice() const override { return 0; }
  DeviceIndex exchangeDevice(DeviceIndex) const override { return 0; }
  DeviceIndex maybeExchangeDevice(DeviceIndex) const override { return 0; }
  void setCurrentDevice(DeviceIndex) const override {}
};
REGISTER_CUDA_HOOKS(CUDAHooks);

}  // namespace at
