/** A Jupyter kernelspec, the content of kernel.json. */
export type KernelSpec = ReturnType<typeof kernelSpec>;

/** The kernelspec's folder name, by which `jupyter --kernel` calls it. */
export const KERNEL_NAME = 'shardlab';

/** The language's name in the kernelspec and in notebooks. */
export const KERNEL_LANGUAGE = 'typescript';

/** Builds kernel.json for the kernel whose program is `main`, run by the Node binary `node`. */
export function kernelSpec({ node, main }: { node: string; main: string }) {
  return {
    argv: [node, main, '{connection_file}'],
    display_name: 'TypeScript (shardlab)',
    language: KERNEL_LANGUAGE,
    interrupt_mode: 'message',
    metadata: { supported_encryption: 'curve', debugger: false },
  };
}
