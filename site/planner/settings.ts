/** A config with the keys of its place beside its own, as `sl.plan` takes it. The planner checks it. */
export type Settings = Readonly<Record<string, unknown>>;

/** Returns the value at a path, such as 'parallel.tp'; undefined if there is none. */
export function settingAt(settings: Settings, path: string): unknown {
  return path
    .split('.')
    .reduce<unknown>((value, key) => (isSection(value) ? value[key] : undefined), settings);
}

/** Returns settings with another value at a path; undefined removes the setting, and sections that are then empty. */
export function withSetting(settings: Settings, path: string, value: unknown): Settings {
  const [key = '', ...rest] = path.split('.');
  const { [key]: section, ...others } = settings;
  if (rest.length === 0) return value === undefined ? others : { ...settings, [key]: value };
  const within = withSetting(isSection(section) ? section : {}, rest.join('.'), value);
  return Object.keys(within).length === 0 ? others : { ...settings, [key]: within };
}

/** Whether a value has settings of its own. */
export function isSection(value: unknown): value is Settings {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
