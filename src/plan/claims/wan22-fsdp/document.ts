import type { ClaimEntry } from '../entry';
import { WAN_ARITHMETIC } from './arithmetic';
import { WAN_CODE } from './code';
import { WAN_COMMUNICATION } from './communication';
import { WAN_CONFIG } from './config';
import { WAN_FUTURES } from './futures';
import { WAN_MECHANISMS } from './mechanisms';
import { WAN_MEMORY } from './memory';
import { WAN_SCALING } from './scaling';
import { WAN_THROUGHPUT } from './throughput';

/** Every claim of "Wan2.2-S2V-14B (27B MoE) trained with FSDP on 8 A100". */
export const WAN22_FSDP: readonly ClaimEntry[] = [
  ...WAN_MEMORY,
  ...WAN_THROUGHPUT,
  ...WAN_COMMUNICATION,
  ...WAN_SCALING,
  ...WAN_CONFIG,
  ...WAN_MECHANISMS,
  ...WAN_CODE,
  ...WAN_ARITHMETIC,
  ...WAN_FUTURES,
];
