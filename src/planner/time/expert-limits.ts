import type { Layout } from '../layout';

/**
 * Returns what is not known about a layout's experts. Megatron-LM splits the layers of overlapped microbatches into parts, and
 * the CPU launches one part after another. With a CUDA graph of the whole iteration, the parts cost the CPU no time.
 */
export function expertsOutside({ model, ep, overlapExperts, cudaGraph }: Layout): readonly string[] {
  if (model.moe === null || ep === 1 || !overlapExperts || cudaGraph === 'iteration') return [];
  return [
    "overlapExperts without cudaGraph 'iteration': the CPU's time to launch the parts of overlapped layers is not known",
  ];
}
