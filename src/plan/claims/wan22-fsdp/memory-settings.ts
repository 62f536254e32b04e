import { shapeOf } from '../../model-shape';
import { modelOf } from '../../models';
import { PUBLISHED, WAN_GIVEN } from './given';

/** Settings, and the memory that a GPU would need with them. */
export interface MemorySetting {
  readonly text: string;
  readonly value: number;
  readonly unit: 'GB' | 'GiB';
}

interface Term {
  readonly text: string;
  readonly bytes: number;
}

const { gpus, layers } = WAN_GIVEN;
const ENCODER = shapeOf(modelOf('umt5-xxl-encoder'));

/** Possible numbers of parameters: the document's number, the published number, and the number of one expert. */
const WHOSE = [
  { text: '27B', params: WAN_GIVEN.params },
  { text: 'the published 28.58B', params: PUBLISHED.params },
  { text: 'one published expert (14.29B)', params: PUBLISHED.params / 2 },
] as const;

/** Possible types of the parameters that stay on a GPU; bytes per parameter. */
const PARAM_TYPES = [
  { text: 'fp32 shards', bytes: 4 },
  { text: 'bf16 shards', bytes: 2 },
  { text: 'fp32 shards and bf16 copies', bytes: 6 },
] as const;

/** Possible types of Adam's states, with a master copy that may be counted as a state; bytes per parameter. */
const STATE_TYPES = [
  { text: 'two fp32 moments', bytes: 8 },
  { text: 'two fp32 moments and a master copy', bytes: 12 },
  { text: 'one fp32 and one bf16 moment', bytes: 6 },
  { text: 'two bf16 moments', bytes: 4 },
  { text: 'two 8-bit moments and a master copy', bytes: 6 + 8 / 256 },
  { text: 'two 8-bit moments', bytes: 2 + 8 / 256 },
] as const;

/** Other memory that may be counted in addition to the shards. */
const BESIDES: readonly Term[] = [
  { text: '', bytes: 0 },
  { text: ' + one gathered block in bf16', bytes: (2 * PUBLISHED.params) / 2 / layers },
  { text: ' + two gathered blocks in bf16', bytes: (2 * 2 * PUBLISHED.params) / 2 / layers },
  { text: " + the text encoder's bf16 shard", bytes: (2 * ENCODER.params) / gpus },
  { text: ' + one whole expert in bf16', bytes: PUBLISHED.params },
  { text: ' + both experts whole in bf16', bytes: 2 * PUBLISHED.params },
];

/** Returns every meaning of "parameters per GPU after sharding", nearest to `gigabytes` first. */
export function paramSettings(gigabytes: number): MemorySetting[] {
  return nearest(gigabytes, overSettings(PARAM_TYPES, BESIDES));
}

/** Returns every meaning of "AdamW states per GPU", nearest to `gigabytes` first. */
export function optimizerSettings(gigabytes: number): MemorySetting[] {
  return nearest(gigabytes, overSettings(STATE_TYPES, [{ text: '', bytes: 0 }]));
}

/** Returns the first settings as text: 'fp32 shards of 27B over 8 (13.5 GB, 5% more)'. */
export function nearestText(gigabytes: number, settings: readonly MemorySetting[], count = 3): string {
  return settings
    .slice(0, count)
    .map(({ text, value, unit }) => {
      const percent = Math.round(100 * (value / gigabytes - 1));
      const off = percent === 0 ? 'equal' : `${Math.abs(percent)}% ${percent > 0 ? 'more' : 'less'}`;
      return `${text} (${value.toFixed(1)} ${unit}, ${off})`;
    })
    .join('; ');
}

function overSettings(types: readonly Term[], besides: readonly Term[]): Term[] {
  const degrees = [gpus, gpus / 2];
  return WHOSE.flatMap((whose) =>
    types.flatMap((type) =>
      degrees.flatMap((degree) =>
        besides.map((more) => ({
          text: `${type.text} of ${whose.text} over ${degree}${more.text}`,
          bytes: (type.bytes * whose.params) / degree + more.bytes,
        })),
      ),
    ),
  );
}

/** Sorts terms by distance, in GB and in GiB, because the document may have read GiB as GB. */
function nearest(gigabytes: number, terms: readonly Term[]): MemorySetting[] {
  return terms
    .flatMap(({ text, bytes }): MemorySetting[] => [
      { text, value: bytes / 1e9, unit: 'GB' },
      { text, value: bytes / 2 ** 30, unit: 'GiB' },
    ])
    .sort((a, b) => Math.abs(Math.log(a.value / gigabytes)) - Math.abs(Math.log(b.value / gigabytes)));
}
