const TAG = 'picture:';

/** The name of the picture that `npm run pictures` makes of a cell's last figure: the cell has the tag `picture:NAME`. */
export function pictureName(cell) {
  return cell.metadata?.tags?.find((tag) => tag.startsWith(TAG))?.slice(TAG.length);
}
