import { configWarnings, isChanged, settingAt, WHOLE_SETTINGS } from '../../config';
import { ConfigError, type Shown, shownAsText, withShown } from '../../core';
import type { ExportedLine } from '../export/launch-lines';
import { keysOf, type Lookup, lookupIn, treatmentOf } from '../export/rules';
import { type BundleFacts, otherNames, type Target, type Treatment } from '../export/target';
import { targets } from '../registry/registry';

/** A setting, and what a bundle does with it. */
export interface ExportedSetting {
  /** The setting's path in this library, such as 'parallel.strategy'. */
  readonly setting: string;
  readonly value: unknown;
  /** The target's names of the setting. If the effect is 'said', only the names that the bundle's files contain. */
  readonly names: readonly string[];
  /** 'said': the bundle does the same; 'other': it does something similar; 'left': it leaves the setting out. */
  readonly effect: 'said' | 'other' | 'left';
  /** What the bundle does instead, or why it leaves the setting out; null if the effect is 'said'. */
  readonly meaning: string | null;
}

/** A bundle that was written. Shown in a notebook as its report. */
export interface ExportReport extends Shown {
  readonly to: string;
  /** Absolute path of the folder. */
  readonly out: string;
  /** Number of ranks for which the bundle is made. */
  readonly world: number;
  readonly files: readonly string[];
  readonly settings: readonly ExportedSetting[];
  /** The lines of another program's settings that are for its launcher. */
  readonly lines: readonly ExportedLine[];
  /** Sentences about other differences from a run here. */
  readonly notes: readonly string[];
}

/** Settings that are reported even if they have their default. */
const ALWAYS: readonly string[] = ['model', 'parallel.strategy', 'optimizer.kind'];

/**
 * Returns what the bundle does with every setting that is not the default. Throws: CONFIG naming each setting that the target
 * cannot express.
 */
export function exportedSettings(facts: BundleFacts, target: Target, to: string): ExportedSetting[] {
  const lookup = lookupIn(target, facts);
  const lookups = lookupsIn(facts);
  const always = target.data === 'batches' ? ALWAYS : [...ALWAYS, 'data'];
  const rows = WHOLE_SETTINGS.flatMap((row) => {
    const { path } = row;
    if (!always.includes(path) && !isChanged(path, facts.config, lookup.usual)) return [];
    const treatment = treatmentOf(row, lookup);
    return [{ row, path, treatment: treatment === 'missing' ? missing(row, lookups) : treatment }];
  });
  const refused = rows.flatMap(({ row, path, treatment }) => {
    if (typeof treatment !== 'object' || !('refused' in treatment)) return [];
    const others = treatment.namesOthers === true ? similarTargets(row, target, lookups) : [];
    return [`${path}: ${treatment.refused}${orExportTo(others)}`];
  });
  if (refused.length > 0) {
    throw new ConfigError(
      [
        `a bundle for '${to}' cannot express these settings of the config:`,
        ...refused,
        ...modelWarnings(facts),
      ].join('\n'),
      { refused },
    );
  }
  return rows.map(({ path, treatment }) => ({
    setting: path,
    value: settingAt(facts.config, path),
    names: namesOf(path, target, facts).filter((name) => treatment !== 'said' || lookup.words.has(name)),
    ...effectOf(treatment),
  }));
}

/** Says what the model here lacks of the published model that it names: see [Note: left-out inputs]. */
export function modelWarnings({ config }: BundleFacts): readonly string[] {
  return configWarnings({ model: config.model }, config, 1);
}

type SettingRow = (typeof WHOLE_SETTINGS)[number];

/** What each target's files have; a target's files are made when they are first asked for. */
interface Lookups {
  /** The targets that take the bundle's model. */
  readonly targets: readonly (readonly [name: string, target: Target])[];
  in(target: Target): Lookup;
}

function lookupsIn(facts: BundleFacts): Lookups {
  const made = new Map<Target, Lookup>();
  const { kind } = facts.shape;
  return {
    targets: [...targets()].flatMap(([name, target]): readonly (readonly [string, Target])[] => {
      if (kind === 'dit') return target.videos === undefined ? [] : [[name, target.videos]];
      return target.takesOwnModels === true || kind !== 'own' ? [[name, target]] : [];
    }),
    in(target) {
      const lookup = made.get(target) ?? lookupIn(target, facts);
      made.set(target, lookup);
      return lookup;
    },
  };
}

/** Returns the refusal of a setting that a target does not have, with the targets that have it. */
function missing(row: SettingRow, lookups: Lookups): Treatment {
  const having = lookups.targets.filter(([, target]) => treatmentOf(row, lookups.in(target)) === 'said');
  const names = having.map(([name]) => name);
  return {
    refused: `this target does not have it, and the losses would change; leave it out${orExportTo(names)}`,
  };
}

/** Returns the names of the targets with data of the same form that express a setting. */
function similarTargets(row: SettingRow, { data }: Target, lookups: Lookups): readonly string[] {
  return lookups.targets.flatMap(([name, target]) => {
    if (target.data !== data) return [];
    const treatment = treatmentOf(row, lookups.in(target));
    const isExpressed = treatment === 'said' || (typeof treatment === 'object' && !('refused' in treatment));
    return isExpressed ? [name] : [];
  });
}

function orExportTo(names: readonly string[]): string {
  return names.length === 0 ? '' : `, or export to ${names.map((name) => `'${name}'`).join(', ')}`;
}

function namesOf(path: string, target: Target, facts: BundleFacts): readonly string[] {
  return [...new Set([...keysOf(path, target, facts), ...otherNames(path, target.originals)])];
}

function effectOf(treatment: Treatment): Pick<ExportedSetting, 'effect' | 'meaning'> {
  if (treatment === 'said') return { effect: 'said', meaning: null };
  if ('other' in treatment) return { effect: 'other', meaning: treatment.other };
  return { effect: 'left', meaning: 'left' in treatment ? treatment.left : null };
}

/** Makes a report, which a notebook shows as the text of REPORT.md. */
export function exportReport(fields: Omit<ExportReport, keyof Shown>, target: Target): ExportReport {
  return withShown({ ...fields }, shownAsText(reportText(fields, target)));
}

/** Returns the text of REPORT.md. */
export function reportText(
  { to, world, settings, lines, notes, files }: Omit<ExportReport, keyof Shown>,
  target: Target,
): string {
  // A program that does not read stored batches has other initial values or other batches, so its losses differ from those here.
  const same = target.data === 'batches' ? ' (the losses are the same up to rounding)' : '';
  const of = (effect: ExportedSetting['effect']): readonly ExportedSetting[] =>
    settings.filter((one) => one.effect === effect);
  const list = (title: string, rows: readonly string[]): string[] =>
    rows.length === 0 ? [] : ['', `## ${title}`, '', ...rows];
  return [
    `# Exported to ${to}: ${target.says}`,
    '',
    `For ${world} ranks. Files: ${files.join(', ')}.`,
    ...list('Settings with the same effect', of('said').map(rowText)),
    ...list(`Settings with a similar effect${same}`, of('other').map(rowText)),
    ...list(`Left out${same}`, of('left').map(rowText)),
    ...list('Settings of the launcher', lines.filter(({ isForLauncher }) => isForLauncher).map(lineText)),
    ...list(
      'Arguments of the program that are no settings here',
      lines.filter(({ isForLauncher }) => !isForLauncher).map(lineText),
    ),
    ...list(
      'Other differences',
      notes.map((note) => `- ${note}`),
    ),
    '',
  ].join('\n');
}

function lineText({ file, line, key, value, why, files }: ExportedLine): string {
  const where = files.length === 0 ? `not in this bundle: ${why}` : `in ${files.join(', ')}`;
  return `- \`${key}\`: ${shortText(value)} (${file}:${line}) – ${where}`;
}

function rowText({ setting, value, names, meaning }: ExportedSetting): string {
  const there = names.length === 0 ? '' : ` (there: ${names.map((name) => `\`${name}\``).join(', ')})`;
  return `- \`${setting}\`: ${shortText(value)}${there}${meaning === null ? '' : ` – ${meaning}`}`;
}

function shortText(value: unknown): string {
  const shown = JSON.stringify(value) ?? 'default';
  return shown.length > 120 ? `${shown.slice(0, 117)}...` : shown;
}
