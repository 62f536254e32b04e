import { Progress, type ProgressPlace } from '../../cell';

/** Shows pip's progress, one piece of work after another, from the lines that pip prints. */
export interface PipProgress {
  /** Takes a line of pip's stdout. */
  line(text: string): void;
  end(): void;
}

/** Shows a bar per file that pip downloads, and the time while it installs. */
export function showPip(place: ProgressPlace): PipProgress {
  let progress: Progress | undefined;
  const begin = (activity: string): void => {
    progress?.end();
    progress = new Progress(activity, 'bytes', place);
  };
  begin('asking the package index');
  return {
    line(text) {
      const [, file] = /^\s*Downloading (?:\S*\/)?([^\s/]+\.(?:whl|gz|zip)(?: \(.*\))?)\s*$/.exec(text) ?? [];
      const [, done, total] = /^Progress (\d+) of (\d+)/.exec(text) ?? [];
      if (total !== undefined) progress?.show(Number(done), Number(total));
      else if (file !== undefined) begin(`downloading ${file}`);
      else if (text.startsWith('Installing collected packages')) begin('installing the packages');
    },
    end: () => progress?.end(),
  };
}
