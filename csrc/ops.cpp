// Schemas of all ops. Each op's .cpp file registers its kernels.
#include <torch/csrc/stable/library.h>

STABLE_TORCH_LIBRARY(missdiff_fast, m) {
  m.def("uniform(Tensor rows, int columns, Tensor key) -> Tensor");
  m.def("normal(Tensor rows, int columns, Tensor key) -> Tensor");
  m.def(
      "perturb(Tensor continuous, Tensor codes, Tensor offsets, Tensor rows, Tensor states, Tensor alpha, "
      "Tensor sigma, Tensor key, int width, float low, float high) -> Tensor");
  m.def(
      "masked_loss(Tensor prediction, Tensor continuous, Tensor codes, Tensor values, Tensor offsets, Tensor rows, "
      "Tensor states, Tensor weight, float mean_weight, Tensor? column_weight=None) -> (Tensor loss, Tensor grad)");
  m.def(
      "masked_noise_loss(Tensor prediction, Tensor continuous, Tensor codes, Tensor offsets, Tensor rows, "
      "Tensor states, Tensor key) -> (Tensor loss, Tensor grad)");
  m.def(
      "step(Tensor x, Tensor prediction, Tensor? previous, Tensor states, Tensor offsets, Tensor coefficients, "
      "Tensor rows, Tensor key, bool softmax) -> (Tensor next, Tensor p)");
  m.def(
      "mlp_sample(Tensor x, Tensor states, Tensor weights, Tensor offsets, Tensor sigmas, Tensor shifts, "
      "Tensor coefficients, Tensor rows, Tensor keys, int precision=0) -> Tensor");
  m.def(
      "mlp_predict(Tensor x, Tensor states, Tensor weights, Tensor offsets, Tensor sigma, Tensor shifts, "
      "int precision=0) -> Tensor");
  m.def(
      "mlp_train_step(Tensor(a!) weights, Tensor(b!) exp_avg, Tensor(c!) exp_avg_sq, Tensor(d!) ema, "
      "Tensor continuous, Tensor codes, Tensor values, Tensor offsets, Tensor rows, Tensor states, "
      "Tensor loss_states, Tensor sigma, Tensor level_features, Tensor weight, Tensor key, Tensor schedule, "
      "int num_columns, int width, int blocks, float mean_weight, Tensor? column_weight=None) -> Tensor");
  m.def(
      "mlp_train_steps(Tensor(a!) weights, Tensor(b!) exp_avg, Tensor(c!) exp_avg_sq, Tensor(d!) ema, "
      "Tensor continuous, Tensor codes, Tensor values, Tensor offsets, Tensor rows, Tensor states, "
      "Tensor loss_states, Tensor sigma, Tensor level_features, Tensor weight, Tensor keys, Tensor schedule, "
      "int num_columns, int width, int blocks, float mean_weight, int precision, Tensor? column_weight=None) -> "
      "Tensor");
  m.def(
      "adamw(Tensor(a!) weights, Tensor(b!) exp_avg, Tensor(c!) exp_avg_sq, Tensor(d!) ema, Tensor gradient, "
      "Tensor schedule) -> ()");
  m.def(
      "mlp_input(Tensor continuous, Tensor codes, Tensor offsets, Tensor rows, Tensor states, Tensor sigma, "
      "Tensor key, int width) -> Tensor");
  m.def(
      "mlp_loss(Tensor(a!) output, Tensor bias, Tensor input, Tensor continuous, Tensor codes, Tensor values, "
      "Tensor offsets, Tensor rows, Tensor states, Tensor loss_states, Tensor sigma, Tensor weight, Tensor count, "
      "float mean_weight, Tensor? column_weight=None) -> Tensor");
  m.def(
      "norm_forward(Tensor h, Tensor bias, Tensor gain, Tensor shift, Tensor? level, Tensor? level_bias, "
      "Tensor(a!) out, Tensor(b!) stats, Tensor(c!)? next=None) -> ()");
  m.def(
      "norm_backward(Tensor(a!) h, Tensor bias, Tensor gain, Tensor stats, Tensor grad, Tensor? residual, "
      "Tensor(b!) out, Tensor(c!)? level=None, bool add=False) -> ()");
  m.def("silu_forward(Tensor x, Tensor bias, Tensor(a!) out) -> ()");
  m.def("silu_backward(Tensor(a!) x, Tensor bias, Tensor grad) -> ()");
  m.def("column_sums(Tensor x, Tensor places, Tensor(a!) out) -> ()");
  m.def("store_next(Tensor(a!) out, Tensor(b!) place, Tensor value) -> ()");
  m.def("encode(Tensor cells, Tensor keys, Tensor ends, Tensor boundaries, int count, Tensor? share=None) -> Tensor");
  m.def("decode(Tensor x, Tensor offsets, Tensor boundaries, Tensor starts) -> (Tensor bin_index, Tensor codes)");
}
