import csv
import io

out = io.StringIO()
writer = csv.DictWriter(out, ["id", "name", "team"], lineterminator="\n")
writer.writeheader()
writer.writerows(await get_users())
rows = list(csv.DictReader(io.StringIO(out.getvalue())))
[out.getvalue().splitlines()[0], rows[1]["name"]]

# topic: modules
# expect value: ['id,name,team', 'Bo']
