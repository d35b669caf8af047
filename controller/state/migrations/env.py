"""Alembic's environment. The connection, its transaction and its lock come from `controller.state.schema`."""

from alembic import context

from controller.state.tables import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    transactional_ddl=True,
    render_as_batch=True,
)
context.run_migrations()
