/* What the extension _cuda asks of torch about devices, answered as if every tensor were on a card. In front of torch's
 * own library it lets the ops' glue run on a machine without one, up to where a kernel would be started. */
#include <stddef.h>
#include <stdint.h>

int32_t aoti_torch_get_current_cuda_stream(int32_t device, void** stream) {
  (void)device;
  *stream = NULL;
  return 0;
}

int32_t aoti_torch_create_device_guard(int32_t device, void** guard) {
  (void)device;
  *guard = NULL;
  return 0;
}

int32_t aoti_torch_delete_device_guard(void* guard) {
  (void)guard;
  return 0;
}

int32_t aoti_torch_get_device_type(void* tensor, int32_t* type) {
  (void)tensor;
  *type = 1; /* CUDA */
  return 0;
}

int32_t aoti_torch_get_device_index(void* tensor, int32_t* index) {
  (void)tensor;
  *index = 0;
  return 0;
}
