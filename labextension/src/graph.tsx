/**
 * A run as a picture. The server has laid it out; here it is only drawn.
 */

import * as React from 'react';
import { duration, stepStatus } from './format';
import { ProblemNote } from './note';
import { isProblem } from './problem';
import type { IRunProps } from './steps';
import type { IGraph, IGraphNode } from './tokens';

/**
 * Room for the lines around the outermost nodes.
 */
const MARGIN = 6;

export function Graph(props: IRunProps): JSX.Element {
  const { opened, trans } = props;
  const graph = opened.part('graph');
  if (!graph) {
    return (
      <p className="nbc-Quiet" role="status">
        {trans.__('Loading…')}
      </p>
    );
  }
  if (isProblem(graph)) {
    return <ProblemNote problem={graph} />;
  }
  if (graph.nodes.length === 0) {
    return <p className="nbc-Quiet">{trans.__('No steps yet.')}</p>;
  }
  return <Picture {...props} graph={graph} />;
}

function Picture(props: IRunProps & { graph: IGraph }): JSX.Element {
  const { model, opened, graph, trans } = props;
  const id = React.useId();
  // As the list of steps has it: the picture does not know what was cut short.
  const seen = new Map(opened.steps.map(step => [step.address, step.status]));
  return (
    // It scrolls, so the keyboard has to get there.
    // eslint-disable-next-line jsx-a11y/no-noninteractive-tabindex
    <div className="nbc-Graph" tabIndex={0}>
      <svg
        role="group"
        aria-label={trans.__('Graph of the run')}
        width={graph.width + 2 * MARGIN}
        height={graph.height + 2 * MARGIN}
        viewBox={`${-MARGIN} ${-MARGIN} ${graph.width + 2 * MARGIN} ${graph.height + 2 * MARGIN}`}
      >
        <defs>
          <marker
            id={`${id}-arrow`}
            className="nbc-Graph-arrow"
            viewBox="0 0 8 8"
            refX="7"
            refY="4"
            markerWidth="7"
            markerHeight="7"
            orient="auto-start-reverse"
          >
            <path d="M0 0 L8 4 L0 8 z" />
          </marker>
        </defs>
        {graph.edges.map((edge, index) => (
          <g key={index} className="nbc-Edge">
            <polyline
              points={edge.points.map(point => point.join(',')).join(' ')}
              markerEnd={`url(#${id}-arrow)`}
            />
            {edge.label && edge.points.length > 0 && (
              <text
                x={middle(edge.points)[0] + 4}
                y={middle(edge.points)[1] - 4}
              >
                {edge.label}
              </text>
            )}
          </g>
        ))}
        {graph.nodes.map(node => (
          <Node
            key={node.id}
            node={{ ...node, status: seen.get(node.address) ?? node.status }}
            isChosen={model.step === node.address}
            choose={() => {
              model.step = node.address;
            }}
            trans={trans}
          />
        ))}
      </svg>
    </div>
  );
}

function Node(props: {
  node: IGraphNode;
  isChosen: boolean;
  choose: () => void;
  trans: IRunProps['trans'];
}): JSX.Element {
  const { node, isChosen, choose, trans } = props;
  const status = stepStatus(node.status, trans);
  const time = node.seconds ? duration(node.seconds) : '';
  const room = Math.max(4, Math.floor(node.width / 7.2));
  return (
    <g
      className={`nbc-Node${node.critical ? ' nbc-mod-critical' : ''}`}
      data-status={node.status}
      role="button"
      tabIndex={0}
      aria-pressed={isChosen}
      aria-label={[node.label, status, time].filter(Boolean).join(', ')}
      transform={`translate(${node.x} ${node.y})`}
      onClick={choose}
      onKeyDown={event => {
        if (event.key === 'Enter' || event.key === ' ') {
          choose();
          event.preventDefault();
        }
      }}
    >
      <title>{[node.label, status, time].filter(Boolean).join(' · ')}</title>
      <rect width={node.width} height={node.height} rx="4" />
      <text x={node.width / 2} y={node.height / 2 - (time ? 4 : -4)}>
        {node.label.length > room
          ? `${node.label.slice(0, room - 1)}…`
          : node.label}
      </text>
      {time && (
        <text
          className="nbc-Node-time"
          x={node.width / 2}
          y={node.height / 2 + 12}
        >
          {time}
        </text>
      )}
    </g>
  );
}

function middle(
  points: ReadonlyArray<readonly [number, number]>
): readonly [number, number] {
  const at = Math.max(1, Math.floor(points.length / 2));
  const [a, b] = [points[at - 1], points[Math.min(at, points.length - 1)]];
  return [(a[0] + b[0]) / 2, (a[1] + b[1]) / 2];
}
