import { CATALOGUE } from '../../src/config';
import { partsOf } from '../../src/planner';
import { isSection, type Settings, withSetting } from './settings';

/** What a link holds: the settings, and the tokens of the training whose cost is shown; null: no length is given. */
export interface Link {
  readonly settings: Settings;
  readonly tokens: number | null;
  /** Parts of the address that are no setting, as they are written there. */
  readonly unread?: readonly string[];
}

/** The key of a link that is no setting. */
const TOKENS = 'tokens';

/** Writes a plan as the part of a link after '#': a path and a value per setting, as 'model=llama3-8b&gpus=64&parallel.tp=2'. */
export function hashOf({ settings, tokens }: Link): string {
  const pairs = leavesOf(settings);
  return [...pairs, ...(tokens === null ? [] : [[TOKENS, tokens] as const])]
    .map(([path, value]) => `${path}=${escapedValue(valueText(value))}`)
    .join('&');
}

/** Reads the part of a link after '#'. A text without a setting has none. */
export function linkOf(hash: string): Link {
  let settings: Settings = {};
  let tokens: number | null = null;
  const unread: string[] = [];
  for (const pair of hash.replace(/^#/, '').split('&')) {
    const [path = '', ...rest] = pair.split('=');
    if (!/^\w+(\.\w+)*$/.test(path) || rest.length === 0) {
      if (pair !== '') unread.push(pair);
      continue;
    }
    const value = parsedValue(unescapedValue(rest.join('=')));
    if (path !== TOKENS) settings = withSetting(settings, path, value);
    else if (typeof value === 'number' && value > 0) tokens = value;
    else unread.push(pair);
  }
  return unread.length === 0 ? { settings, tokens } : { settings, tokens, unread };
}

/** Returns each setting that is no section, with its path. Names of settings have no dots; a section with other keys is one value. */
function leavesOf(settings: Settings, place = ''): (readonly [string, unknown])[] {
  return Object.entries(settings).flatMap(([key, value]): (readonly [string, unknown])[] => {
    if (value === undefined) return [];
    const path = place === '' ? key : `${place}.${key}`;
    const isNamed = isSection(value) && Object.keys(value).every((each) => /^\w+$/.test(each));
    return isNamed && Object.keys(value).length > 0 ? leavesOf(value, path) : [[path, value]];
  });
}

/** Writes a value as JSON, but a text without quotes if it then reads as a text. */
function valueText(value: unknown): string {
  return typeof value === 'string' && typeof parsedValue(value) === 'string' && value !== ''
    ? value
    : JSON.stringify(value);
}

function parsedValue(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

/** Escapes what would end a value or a link; other characters stay, so that the link can be read. */
function escapedValue(text: string): string {
  return text.replaceAll(/[%&#\s"<>`+]|[^ -~]/gu, encodeURIComponent);
}

function unescapedValue(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text; // a link that was cut within an escape
  }
}

/** Options of the command that are keys of a place. */
const OPTIONS: Readonly<Record<string, string>> = {
  on: '--hardware',
  hardware: '--hardware',
  gpus: '--gpus',
  gpusPerNode: '--gpus-per-node',
  nicGbit: '--nic',
  exampleTokens: '--example-tokens',
};

/** Writes the command that makes the same plan. A model without a name of the catalogue is sent as a line of JSON. */
export function commandOf({ settings, tokens }: Link): string {
  const { model, ...others } = settings;
  const { like = model, ...sizes } = isSection(model) ? model : {};
  if (typeof like !== 'string' || !(like in CATALOGUE))
    return `echo ${quoted(JSON.stringify(settings))} | shardlab plan --batch -`;
  const length = tokens === null ? [] : ['--tokens', String(tokens)];
  const pairs = leavesOf({ ...(Object.keys(sizes).length > 0 && { model: sizes }), ...others });
  const words = pairs.flatMap(([path, value]) => {
    const option = OPTIONS[path];
    return option === undefined
      ? ['--set', quoted(`${path}=${valueText(value)}`)]
      : [option, quoted(String(value))];
  });
  return ['shardlab plan', like, ...words, ...length].join(' ');
}

/** Quotes a word for a shell if a shell would read it otherwise. */
function quoted(word: string): string {
  return /^[\w./=:,@%+-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;
}

/** Writes the line of a notebook that makes the same plan. */
export function codeOf({ settings, tokens }: Link): string {
  const { written, place } = partsOf(settings);
  const plan = `sl.plan(${literal(written)}, ${literal({ ...place })})`;
  return tokens === null ? plan : `${plan}.cost({ tokens: ${tokens} })`;
}

function literal(value: unknown): string {
  if (typeof value === 'string') return `'${value.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`;
  if (Array.isArray(value)) return `[${value.map(literal).join(', ')}]`;
  if (!isSection(value)) return JSON.stringify(value);
  const entries = Object.entries(value).map(
    ([key, each]) => `${/^[A-Za-z_]\w*$/.test(key) ? key : literal(key)}: ${literal(each)}`,
  );
  return entries.length === 0 ? '{}' : `{ ${entries.join(', ')} }`;
}
