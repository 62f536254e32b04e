/**
 * Uses of a part: runs of this library's own engine, ranks of PyTorch (engine 'torch'), or the document's training on its GPUs.
 */
export const USES = ['here', 'engine torch', 'cluster'] as const;
export type Use = (typeof USES)[number];

/** What `shardlab doctor` measures for a part. */
export type Probe =
  | {
      readonly kind: 'torch' | 'python' | 'cuda' | 'nccl' | 'driver' | 'processor' | 'networks' | 'adapters';
    }
  /** A number of GPUs or machines, or bytes of memory or of the free disk; less than `least` is not enough. */
  | { readonly kind: 'gpus' | 'machines' | 'memory' | 'disk'; readonly least: number }
  /** A package of the Python that has PyTorch; a program of the PATH; a variable of the environment; a network interface. */
  | { readonly kind: 'package' | 'program' | 'variable' | 'interface'; readonly name: string }
  /** Whether a port is free on this machine. */
  | { readonly kind: 'port'; readonly port: number }
  /** Whether a file or folder exists. */
  | { readonly kind: 'path'; readonly path: string };

/** A part of the environment that a document states. */
export interface StatedPart {
  /** Name of the part, such as 'PyTorch'. */
  readonly item: string;
  /** Where the document states the part. */
  readonly section: string;
  /** The stated value, or what is not stated. */
  readonly stated: string;
  readonly probe: Probe;
  /** The uses that need the part; empty: none. */
  readonly needed: readonly Use[];
  /** Why the part is needed or not. */
  readonly why: string;
  /** The claim that checks the value. */
  readonly claim?: string;
}
