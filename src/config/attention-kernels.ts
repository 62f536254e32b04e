import type { AttentionKind } from './families/kinds';
import { spelled } from './option-names';

/**
 * Kernels of attention, with other programs' names. 'unfused' writes scores and probabilities to memory; the other kernels do not:
 * FlashAttention 1, 2 ('flash') and 3, the kernel of Triton's tutorial, the memory-efficient kernel of xFormers and PyTorch, and
 * the kernel of cuDNN.
 */
const KERNEL_NAMES = {
  unfused: ['eager', 'math', 'standard', 'fusedsoftmax', 'disabled', 'local'],
  flash1: ['flashattention1', 'fa1'],
  triton: [],
  efficient: ['xformers', 'memoryefficient', 'efficientattention'],
  flash: ['sdpa', 'flashattention', 'flash2', 'flashattention2', 'flashattn', 'fa2'],
  flash3: ['flashattention3', 'fa3'],
  cudnn: ['cudnnattention'],
} as const satisfies Readonly<Record<string, readonly string[]>>;

export type AttentionKernel = keyof typeof KERNEL_NAMES;

export const ATTENTION_KERNELS = Object.keys(KERNEL_NAMES) as AttentionKernel[]; // the keys of the table

/** Returns our name of another program's kernel; undefined for any other name. */
export function kernelNamed(name: string): AttentionKernel | undefined {
  const word = spelled(name.replace(/^AttnBackend\./i, ''));
  return ATTENTION_KERNELS.find((kernel) => {
    const others: readonly string[] = KERNEL_NAMES[kernel];
    return kernel === word || others.includes(word);
  });
}

/** Returns the kernel with which GPUs compute a model's kind of attention. */
export function kernelOf(kind: AttentionKind): AttentionKernel {
  return kind === 'flash' ? 'flash' : 'unfused';
}

/** Returns the kind of attention that a model here has in place of the kernel with this name; kernels without a name here work in blocks. */
export function kindOfKernel(name: string): AttentionKind {
  return kernelNamed(name) === 'unfused' ? 'eager' : 'flash';
}
