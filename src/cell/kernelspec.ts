/** The kernelspec's folder name: what a notebook's metadata and `jupyter --kernel` say. */
export const KERNEL_NAME = 'shardlab';

/** The content of a kernel.json. Source: Jupyter's "Making kernels for Jupyter". */
export interface Kernelspec {
  readonly argv: readonly string[];
  readonly display_name: string;
  readonly language: string;
  readonly interrupt_mode: 'message';
  readonly metadata: Readonly<Record<string, unknown>>;
}

/**
 * The kernelspec that starts `main` (the kernel's compiled front process) with the program `node`; absolute paths,
 * because a Jupyter server that a desktop started has not the shell's PATH.
 */
export function kernelspec(node: string, main: string): Kernelspec {
  return {
    argv: [node, main, '{connection_file}'],
    display_name: 'TypeScript (shardlab)',
    language: 'typescript',
    interrupt_mode: 'message',
    metadata: { supported_encryption: 'curve' },
  };
}
