import { z } from 'zod';
import { PUBLISHED_NAMES } from '../../src/config/model-names';
import type { Original, Planned } from '../../src/config/setting';
import { SETTING_ROWS } from '../../src/config/setting-table';
import { KINDS, MODEL_PARTS } from '../../src/config/settings/model';

// The generated parts of docs/reference/settings.md, each between two comments that name it.

/** The page with its generated parts replaced by the table of settings. */
export function settingsPage(page: string): string {
  return Object.entries(PARTS).reduce((text, [name, lines]) => {
    const [before, rest] = split(text, `<!-- ${name}: \`npm run golden\` writes it -->\n`);
    const [, after] = split(rest, `<!-- end of ${name} -->`);
    return `${before}<!-- ${name}: \`npm run golden\` writes it -->\n${lines().join('\n')}\n<!-- end of ${name} -->${after}`;
  }, page);
}

const PARTS: Readonly<Record<string, () => readonly string[]>> = {
  settings: () => [
    '| key | values, the default first | what it says | called elsewhere | in a plan |',
    '|---|---|---|---|---|',
    ...SETTING_ROWS.map(({ path, schema, says, form, names = {}, planned }) =>
      rowOf(`\`${path}\``, valuesOf(schema, form), says, elsewhere(names), planned ? inPlan(planned) : ''),
    ),
  ],
  kinds: () => [
    '| kind | settings (defaults) | equal to |',
    '|---|---|---|',
    ...Object.entries(KINDS).map(([kind, { schema, says }]) =>
      rowOf(`\`'${kind}'\``, sizesOf(schema.shape).join(', '), says),
    ),
  ],
  sizes: () => [
    '| key of a model | what it says | in a plan |',
    '|---|---|---|',
    ...Object.entries(MODEL_PARTS).map(([key, { says, planned }]) =>
      rowOf(`\`model.${key}\``, says, inPlan(planned)),
    ),
  ],
  published: () => [`Published: ${PUBLISHED_NAMES.map((name) => `\`${name}\``).join(', ')}.`],
};

const PROGRAMS: Readonly<Record<Original, string>> = {
  fsdp: 'FSDP',
  fullyShard: 'fully_shard',
  ddp: 'DDP',
  fairScale: 'FairScale',
  torch: 'PyTorch',
  deepSpeed: 'DeepSpeed',
  transformers: 'transformers',
  accelerate: 'Accelerate',
  megatron: 'Megatron-LM',
  peft: 'PEFT',
  wan: 'Wan2.2',
  diffSynth: 'DiffSynth-Studio',
};

function rowOf(...cells: readonly string[]): string {
  return `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`;
}

function valuesOf(schema: z.ZodType, form: string | undefined): string {
  const given = schema.safeParse(undefined);
  const isObject = typeof given.data === 'object' && given.data !== null && !Array.isArray(given.data);
  const usual = !given.success ? 'required' : isObject || given.data === undefined ? '' : code(given.data);
  const others =
    form ??
    choicesOf(schema)
      .filter((choice) => choice !== usual)
      .join(', ');
  return [usual, form === undefined ? others : `as \`${others}\``]
    .filter((text) => text !== '' && text !== 'as ``')
    .join('; ');
}

/** The choices of a schema; empty for a number or a text. */
function choicesOf(schema: z.core.$ZodType): readonly string[] {
  if (schema instanceof z.ZodEnum || schema instanceof z.ZodLiteral) {
    const values = schema instanceof z.ZodEnum ? schema.options : [...schema.values];
    return values.map(code);
  }
  if (schema instanceof z.ZodBoolean) return ['`true`', '`false`'];
  if (schema instanceof z.ZodNullable) return [...choicesOf(schema.unwrap()), '`null`'];
  if (schema instanceof z.ZodPipe) return choicesOf(schema.in);
  if (schema instanceof z.ZodDefault || schema instanceof z.ZodOptional) return choicesOf(schema.unwrap());
  return [];
}

function code(value: unknown): string {
  const text = typeof value === 'string' ? `'${value}'` : JSON.stringify(value);
  return `\`${text.replaceAll(',', ', ')}\``;
}

function elsewhere(names: Readonly<Partial<Record<Original, string | readonly string[]>>>): string {
  return Object.entries(names)
    .map(
      ([by, name]) =>
        `${PROGRAMS[by as Original]} ${[name]
          .flat()
          .map((each) => `\`${each}\``)
          .join(', ')}`,
    )
    .join('; ');
}

function inPlan(planned: Planned<never>): string {
  if ('refused' in planned) return planned.refused;
  return 'reads' in planned ? 'read' : `without effect: ${planned.ignored}`;
}

function sizesOf(shape: Readonly<Record<string, z.ZodType>>): readonly string[] {
  return Object.entries(shape)
    .filter(([key]) => key !== 'kind')
    .map(([key, schema]) => {
      const { success, data } = schema.safeParse(undefined);
      return success && data !== undefined ? `${key} (${code(data)})` : success ? `${key}?` : key;
    });
}

function split(text: string, at: string): readonly [string, string] {
  const index = text.indexOf(at);
  if (index < 0) throw new Error(`docs/reference/settings.md has no line "${at.trim()}"`);
  return [text.slice(0, index), text.slice(index + at.length)];
}
