// Here until the first kernel for AVX512_BF16 comes: an object library must not be empty.
namespace gpt {
[[maybe_unused]] static const int kNothing = 0;
}  // namespace gpt
