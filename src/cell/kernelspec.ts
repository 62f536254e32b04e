/** A Jupyter kernelspec, the content of kernel.json. */
export type KernelSpec = ReturnType<typeof kernelSpec>;

/** The name of the kernelspec's folder, which `jupyter --kernel` takes. */
export const KERNEL_NAME = 'shardlab';

/** The language's name in the kernelspec and in notebooks. */
export const KERNEL_LANGUAGE = 'typescript';

/** Builds kernel.json for a kernel: the Node binary `node` runs the program `main`. */
export function kernelSpec({ node, main }: { node: string; main: string }) {
  return {
    argv: [node, main, '{connection_file}'],
    display_name: 'TypeScript (shardlab)',
    language: KERNEL_LANGUAGE,
    interrupt_mode: 'message',
    metadata: { supported_encryption: 'curve', debugger: true },
  };
}
