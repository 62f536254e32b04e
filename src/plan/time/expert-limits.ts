import type { Layout } from '../layout';

/**
 * Returns what is not known of a layout's experts. Megatron-LM splits the layers of overlapped microbatches into parts that the
 * CPU launches one by one; only with a graph of the whole iteration do they cost the CPU nothing.
 */
export function expertsOutside({ model, ep, overlapExperts, cudaGraph }: Layout): readonly string[] {
  if (model.moe === null || ep === 1 || !overlapExperts || cudaGraph === 'iteration') return [];
  return [
    "overlapExperts without cudaGraph 'iteration': the CPU's time to launch the parts of overlapped layers is not known",
  ];
}
