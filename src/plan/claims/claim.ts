/** The documents whose statements are checked, and what each is about. */
export const DOCUMENTS = {
  'wan22-fsdp': 'Wan2.2-S2V-14B (27B MoE) trained with FSDP on 8 A100',
  'fsdp-guide': 'PyTorch FSDP acceleration guide',
  'wan-deepspeed-zero3': 'Wan with DeepSpeed stage 3, offload and FairScale',
  'accelerate-multinode': 'Accelerate on 4 machines x 8 GPUs with DiffSynth-Studio / Wan2.2-I2V-A14B',
  'fsdp-megatron-swift': 'FSDP and Megatron through ms-swift',
} as const;

export type DocumentName = keyof typeof DOCUMENTS;

export type ClaimKind =
  | 'memory'
  | 'throughput'
  | 'communication'
  | 'scaling'
  | 'numerics'
  | 'cost'
  | 'mechanism'
  | 'config'
  | 'code'
  | 'advice';

/** What a document states. */
export interface Claim {
  /** As 'wan.mem.params'. */
  readonly id: string;
  readonly document: DocumentName;
  readonly kind: ClaimKind;
  readonly statement: string;
  /** The number, two for a range; null where none is stated. */
  readonly documented: number | readonly [number, number] | null;
  /** Of `documented`; changes are percents of what was before, negative where something falls. */
  readonly unit: string | null;
  /** What the document says of the circumstances. */
  readonly given: Readonly<Record<string, unknown>>;
  /** Where the number is a bound. */
  readonly relation?: '>' | '>=' | '<' | 'up to';
}

/** A claim of a document, whose name need not be repeated in each. */
export function claimOf(document: DocumentName, claim: Omit<Claim, 'document'>): Claim {
  return { ...claim, document };
}
