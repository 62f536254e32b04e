/** What other libraries call our values. Source: torch.distributed (DDP, FSDP), DeepSpeed (ZeRO's stages). */
const OTHER_NAMES: Readonly<Record<string, string>> = {
  ddp: 'NO_SHARD',
  zero0: 'NO_SHARD',
  zero1: 'ZERO_1',
  zero2: 'ZERO_2',
  zero3: 'FULL_SHARD',
  fsdp: 'FULL_SHARD',
  fsdp2: 'FULL_SHARD',
  hsdp: 'HYBRID_SHARD',
  adamw: 'adamW',
  adam8bit: 'adamW8bit',
  adamw8bit: 'adamW8bit',
};

/** Our value for another library's name, in any spelling ('ZeRO-3'); undefined where it has none. */
export function fromOtherName(word: string): string | undefined {
  const spelled = word.toLowerCase().replaceAll(/[-_ ]|stage/g, '');
  return Object.hasOwn(OTHER_NAMES, spelled) ? OTHER_NAMES[spelled] : undefined;
}
